package clienttrace_test

import (
	"context"
	"fmt"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clienttrace"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// A program gives the provider that it has for its other spans. Here they stay in
// memory, to be looked at.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	store, err := pebble.Open(pebble.Config{})
	if err != nil {
		slog.Error("opening a store", "error", err)
		return
	}
	keeper, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		slog.Error("opening Oncekeeper", "error", err)
		return
	}
	defer keeper.Close(context.Background())

	traced := keeper.Client(client.WithTracer(clienttrace.New(provider)))

	key := oncekeeper.Key{Tenant: "acme", Operation: "invoices.send", ID: "17"}
	for range 2 {
		_, _ = client.Do(context.Background(), traced, key, func(context.Context, *client.Attempt) (string, error) { return "sent", nil })
	}
	for _, span := range spans.GetSpans() {
		for _, attribute := range span.Attributes {
			if attribute.Key == "oncekeeper.result" {
				fmt.Println(attribute.Value.AsString(), "with", len(span.Links), "links")
			}
		}
	}
	// Output:
	// granted with 0 links
	// replayed with 1 links
}
