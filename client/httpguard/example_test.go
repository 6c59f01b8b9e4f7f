package httpguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

type accountKey struct{}

// tenant gives what the authentication in front left in the request.
func tenant(r *http.Request) (string, error) {
	account, ok := r.Context().Value(accountKey{}).(string)
	if !ok {
		return "", oncekeeper.ErrUnauthenticated
	}
	return account, nil
}

// A server whose charges are made once for each key.
func ExampleNew() {
	conn, err := grpc.NewClient("dns:///oncekeeper.internal:8460", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		slog.Error("dialling Oncekeeper", "error", err)
		return
	}
	defer conn.Close()
	guard, err := httpguard.New(client.New(conn), httpguard.Config{Tenant: tenant, Documentation: "/docs/keys"})
	if err != nil {
		slog.Error("guarding", "error", err)
		return
	}
	once := guard.Operation("charges.create", httpguard.WithRetention(48*time.Hour))
	mux := http.NewServeMux()
	mux.Handle("POST /charges", once(http.HandlerFunc(createCharge)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer server.Close()
}

var errOutOfStock = errors.New("out of stock")

// A guarded handler takes its fencing token to its own tables, and says what it
// knows of a failure.
func createCharge(w http.ResponseWriter, r *http.Request) {
	token := int64(0)
	if attempt, ok := httpguard.AttemptFrom(r.Context()); ok {
		token = attempt.Token()
	}
	err := writeCharge(r.Context(), token)
	switch {
	case errors.Is(err, errOutOfStock):
		httpguard.SettleAs(r.Context(), oncekeeper.SettledRetryable) // nothing was done: the next request may run
		http.Error(w, "out of stock: come back", http.StatusServiceUnavailable)
	case err != nil:
		// Nobody knows, and the next attempt is told that it takes over.
		http.Error(w, "something failed", http.StatusInternalServerError)
	default:
		_ = httpguard.SetResource(r.Context(), "/charges/ch_1")
		w.Header().Set("Location", "/charges/ch_1")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"id": "ch_1"})
	}
}

func writeCharge(context.Context, int64) error { return nil }

func ExampleAttemptFrom() {
	var handler http.HandlerFunc = createCharge
	_ = handler
}
