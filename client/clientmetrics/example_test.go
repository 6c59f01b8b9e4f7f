package clientmetrics_test

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/clientmetrics"
	"github.com/oncekeeper/oncekeeper/client/inbox"
)

// What a process has is registered in one line, beside its other numbers.
func Example() {
	conn, err := grpc.NewClient("dns:///oncekeeper.internal:8460", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		slog.Error("dialling Oncekeeper", "error", err)
		return
	}
	defer conn.Close()
	keeper := client.New(conn)
	orders, err := inbox.New(keeper, inbox.Config{Tenant: "acme", Subscriber: "invoices"})
	if err != nil {
		slog.Error("making an inbox", "error", err)
		return
	}
	reg := prometheus.NewRegistry()

	reg.MustRegister(clientmetrics.Client(keeper), clientmetrics.Inbox(orders))

	families, err := reg.Gather()
	if err != nil {
		slog.Error("gathering", "error", err)
		return
	}
	for _, f := range families {
		if f.GetName() == "oncekeeper_inbox_tries_total" {
			fmt.Println(f.GetName(), "of", f.GetMetric()[0].GetLabel()[1].GetValue())
		}
	}
	// Output: oncekeeper_inbox_tries_total of invoices
}
