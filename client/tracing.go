package client

import (
	"context"
	"errors"
	"time"

	"github.com/oncekeeper/oncekeeper"
)

// Tracer tells each Run, and so each Do and each call of a guard or an inbox, as a
// span. The package clienttrace has one for OpenTelemetry. It is called in the Run's
// own goroutine, must not block, and may be called from any number of them.
type Tracer interface {
	// Start begins the span of a Run of key. The context that it gives is what the
	// service is called in, and what the function's context is made from.
	Start(ctx context.Context, key oncekeeper.Key) (context.Context, Span)
}

// Span is one Run.
type Span interface {
	// TraceParent is the span's W3C traceparent. The service keeps it with the attempt,
	// if it grants one, for those who get its outcome. Empty: none.
	TraceParent() string
	// End ends the span; once, also where the function panicked.
	End(Seen)
}

// Seen is what there is to tell of a Run.
type Seen struct {
	// Result and Err are what Run gave.
	Result Result
	Err    error
	// Crashed: the function panicked or left its goroutine, so Run gave nothing.
	Crashed bool
	// Grant is what the Run was granted last; nil: nothing.
	Grant *Grant
	// Waited is how long another attempt was waited for, from the answer that first
	// said that it runs; 0: it was not waited for.
	Waited time.Duration
	// Met are other attempts of the key that the Run was told of and whose traces are
	// known, each once, up to MaxMet.
	Met []Met
}

// MaxMet bounds the attempts that Seen tells of.
const MaxMet = 8

// Met is another attempt of the key, by the traceparent that it was begun with.
type Met struct {
	TraceParent string
	As          Meeting
}

// Meeting is how a Run met another attempt.
type Meeting string

const (
	// MetOutcome: the attempt gave the outcome that the Run was answered with.
	MetOutcome Meeting = "outcome"
	// MetPrevious: the attempt before the one that the Run was granted.
	MetPrevious Meeting = "previous"
	// MetRunning: the attempt was running when the Run asked.
	MetRunning Meeting = "running"
	// MetUnresolved: the attempt ended with no known outcome, and the key is held.
	MetUnresolved Meeting = "unresolved"
)

// WithTracer tells every Run as a span of t. Default: none is told.
func WithTracer(t Tracer) Option { return func(c *Client) { c.tracer = t } }

// errCrashed stands for the error of a Run that did not return.
var errCrashed = errors.New("oncekeeper: the function panicked or left its goroutine")

// sight is a Run as it is seen for its span; nil: nobody looks.
type sight struct {
	client *Client
	span   Span
	seen   Seen
	// busy: some other attempt was running, and since when that is known.
	busy  bool
	since time.Duration
}

// see begins the span of a Run.
func (c *Client) see(ctx context.Context, key oncekeeper.Key) (context.Context, *sight) {
	if c.tracer == nil {
		return ctx, nil
	}
	ctx, span := c.tracer.Start(ctx, key)
	return ctx, &sight{client: c, span: span}
}

func (s *sight) traceParent() string {
	if s == nil {
		return ""
	}
	return s.span.TraceParent()
}

// answered notes what a Begin was answered.
func (s *sight) answered(a BeginAnswer) {
	if s == nil {
		return
	}
	s.wait()
	s.seen.Grant = a.Grant // one that was lost is no more
	switch {
	case a.Grant != nil:
		s.met(a.Grant.PreviousTraceParent, MetPrevious)
	case a.Outcome != nil:
		s.met(a.Outcome.TraceParent, MetOutcome)
	case a.Unresolved != nil:
		s.met(a.Unresolved.TraceParent, MetUnresolved)
	case a.InProgress != nil:
		if !s.busy {
			s.busy, s.since = true, s.client.clock.Monotonic()
		}
		s.met(a.InProgress.TraceParent, MetRunning)
	}
}

// wait counts what was waited so far.
func (s *sight) wait() {
	if s.busy {
		s.seen.Waited = s.client.clock.Monotonic() - s.since
	}
}

// met notes another attempt, once: an outcome is told rather than that its attempt
// was running before.
func (s *sight) met(parent string, as Meeting) {
	if parent == "" {
		return
	}
	for i, m := range s.seen.Met {
		if m.TraceParent == parent {
			s.seen.Met[i].As = as
			return
		}
	}
	if len(s.seen.Met) == MaxMet { // the newest says most
		s.seen.Met = s.seen.Met[1:]
	}
	s.seen.Met = append(s.seen.Met, Met{TraceParent: parent, As: as})
}

// end ends the span of a Run that gave result and err.
func (s *sight) end(result Result, err error) {
	if s == nil {
		return
	}
	if err != nil && s.seen.Grant == nil { // it ended while it waited
		s.wait()
	}
	if s.seen.Crashed = errors.Is(err, errCrashed); !s.seen.Crashed {
		s.seen.Result, s.seen.Err = result, err
	}
	s.span.End(s.seen)
}
