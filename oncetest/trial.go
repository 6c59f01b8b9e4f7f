package oncetest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"google.golang.org/grpc"

	"github.com/oncekeeper/oncekeeper/client"
)

// Trial is what a handler is tried in: a Server of its own, and the place inside the
// guard from which the trial strikes.
type Trial struct {
	*Server

	mu sync.Mutex
	// handlers run now, and entered so far.
	handlers, entered int
	// before and after the handler's first run, once each.
	before, after func(ctx context.Context)
}

// Client makes a client for the guard, or for client.Do. It tries each call once:
// whoever waits for a retry waits for a clock that the trial moves. It shadows
// Server.Client.
func (tr *Trial) Client(opts ...client.Option) *client.Client {
	quiet := []client.Option{client.WithRetryBudget(0, 0), client.WithLogger(slog.New(slog.DiscardHandler))}
	return tr.Server.Client(append(quiet, opts...)...)
}

// UnaryServer is the interceptor that stands behind the guard, next to the handler.
func (tr *Trial) UnaryServer() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
		err = tr.Around(ctx, func(ctx context.Context) error {
			response, err = handler(ctx, request)
			return err
		})
		return response, err
	}
}

// Handler stands between an HTTP guard and next.
func (tr *Trial) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = tr.Around(r.Context(), func(ctx context.Context) error {
			next.ServeHTTP(w, r.WithContext(ctx))
			return nil
		})
	})
}

// Around runs f where neither of the above fits: in the function that client.Do is
// given, or a consumer's handler.
func (tr *Trial) Around(ctx context.Context, f func(ctx context.Context) error) error {
	before, after := tr.enter()
	defer tr.faults.change(func() {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.handlers--
	})
	before(ctx)
	err := f(ctx)
	after(ctx)
	return err
}

// enter takes what is to be done around this run of the handler.
func (tr *Trial) enter() (before, after func(ctx context.Context)) {
	before, after = func(context.Context) {}, func(context.Context) {}
	tr.faults.change(func() {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.handlers++
		tr.entered++
		if tr.entered > 1 {
			return
		}
		if tr.before != nil {
			before = tr.before
		}
		if tr.after != nil {
			after = tr.after
		}
	})
	return before, after
}

// runs gives how often the handler was run.
func (tr *Trial) runs() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.entered
}

// quiet waits until no handler runs and every attempt is settled.
func (tr *Trial) quiet(ctx context.Context) error {
	return tr.faults.await(ctx, func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.handlers == 0 && len(tr.faults.running) == 0
	})
}
