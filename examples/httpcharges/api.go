package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

type accountKey struct{}

// authenticate says who is calling: in front of the guard, which keeps answers by
// tenant.
func authenticate(next http.Handler) http.Handler {
	accounts := map[string]string{"Bearer acme-token": "acme", "Bearer initech-token": "initech"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, ok := accounts[r.Header.Get("Authorization")]
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who is calling?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, account)))
	})
}

func account(r *http.Request) (string, error) {
	name, ok := r.Context().Value(accountKey{}).(string)
	if !ok {
		return "", oncekeeper.ErrUnauthenticated
	}
	return name, nil
}

// api is the service that is guarded.
type api struct{ bank *bank }

func newAPI(keeper *client.Client) (http.Handler, error) {
	guard, err := httpguard.New(keeper, httpguard.Config{Tenant: account})
	if err != nil {
		return nil, err
	}
	a := &api{bank: newBank()}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", guard.Operation("charges.create")(http.HandlerFunc(a.createCharge)))
	mux.Handle("POST /exports", guard.Operation("exports.create")(http.HandlerFunc(a.createExport)))
	// These have no effect, or no one answer: they are not guarded.
	mux.HandleFunc("GET /charges", a.listCharges)
	mux.HandleFunc("GET /events", a.events)
	return authenticate(mux), nil
}

func (a *api) createCharge(w http.ResponseWriter, r *http.Request) {
	var request struct{ Amount int }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Amount <= 0 {
		http.Error(w, "an amount above zero, in JSON", http.StatusBadRequest) // kept: it will not get better
		return
	}
	attempt, _ := httpguard.AttemptFrom(r.Context())
	charge, err := a.bank.charge(attempt.Key().ID, request.Amount, httpguard.Takeover(r.Context()))
	if err != nil {
		// Nobody knows whether the bank did it. The next attempt is told to look.
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Location", "/charges/"+charge.ID)
	w.Header().Set("Set-Cookie", "session=secret") // for the first caller alone
	answer(w, http.StatusCreated, charge)
}

// createExport answers with more than is kept of an answer.
func (a *api) createExport(w http.ResponseWriter, r *http.Request) {
	if err := httpguard.SetResource(r.Context(), "/exports/1"); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/csv")
	w.WriteHeader(http.StatusCreated)
	line := strings.Repeat("x", 1023) + "\n"
	for range 100 << 10 { // 100 MiB
		if _, err := w.Write([]byte(line)); err != nil {
			return
		}
	}
}

func (a *api) listCharges(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, a.bank.all())
}

// events streams: a guarded route's writer could not.
func (a *api) events(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	stream := http.NewResponseController(w)
	for n := range 3 {
		fmt.Fprintf(w, "data: %d\n\n", n+1)
		if err := stream.Flush(); err != nil {
			return
		}
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // that the other end left is its affair
}
