package httpguard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/receipt"
)

const (
	// DefaultWait is how long a request waits for another attempt of its key,
	// unless told otherwise: long enough to answer most double clicks with one round
	// trip, short enough that waiters do not gather in the server.
	DefaultWait = 500 * time.Millisecond
	// DefaultMaxRequestBytes is how much of a request's body is read.
	DefaultMaxRequestBytes = 1 << 20

	// defaultKeptBytes of an answer are held where the service did not say what it
	// keeps.
	defaultKeptBytes = 1 << 20
)

// Config is how requests are guarded. Tenant is required; the zero value of any
// other field is its default.
type Config struct {
	// Tenant says whose request it is, from what authentication left in it: 1 to
	// 128 bytes. Two tenants' equal keys are two keys. An error that Is
	// oncekeeper.ErrUnauthenticated or ErrPermissionDenied is answered 403, any other
	// 500: a challenge (401) is for the authentication in front.
	Tenant func(r *http.Request) (string, error)
	// Wait bounds how long a request waits for another attempt before it is
	// answered 409. 0: DefaultWait. Negative: not at all.
	Wait time.Duration
	// MaxRequestBytes bounds the body of a guarded request, which is read whole
	// before anything runs: more is answered 413. 0: DefaultMaxRequestBytes.
	MaxRequestBytes int64
	// ReplayHeader names headers of an answer that are kept and replayed with it,
	// beside its Content-Type and those that the package names: up to 64 entries and
	// 16 KiB in all, the rest is left out. Credentials, cookies, and what belongs to
	// one connection or one answer cannot be named.
	ReplayHeader []string
	// Receipts is where handlers leave a receipt of their effect, by InTx of
	// client/receipt/pgxreceipt or sqlreceipt. What InTx gives is a Response.
	Receipts receipt.Store
	// AnswerFirst answers with what a handler's InTx committed while the attempt is
	// being settled: the caller waits for one round trip to Oncekeeper, not for two. It
	// needs Receipts. Operations with WithHold or WithoutReceipts are settled first, as
	// all else is that a handler's own InTx did not commit: see
	// client.Request.AnswerFirst. Whoever stops the server calls client.Client.Drain
	// after it.
	AnswerFirst bool
	// Documentation is the address of what the API says of its keys. Refusals carry
	// it as Link, rel="describedby", which the draft asks for.
	Documentation string
	// Logger is told of what no caller can mend: a configuration that the service
	// refuses, a body that was read before the guard. Default: slog.Default().
	Logger *slog.Logger
}

// check gives what is wrong with cfg, and fills in the defaults.
func (cfg *Config) check(keeper *client.Client) error {
	if keeper == nil {
		return errors.New("httpguard: a client of Oncekeeper is required")
	}
	if cfg.Tenant == nil {
		return errors.New("httpguard: Config.Tenant is required: without it, one tenant could replay another's answers")
	}
	if cfg.AnswerFirst && cfg.Receipts == nil {
		return errors.New("httpguard: Config.AnswerFirst needs Config.Receipts: without them, what was answered could be run again")
	}
	if cfg.Wait == 0 {
		cfg.Wait = DefaultWait
	}
	if cfg.MaxRequestBytes < 0 {
		return fmt.Errorf("httpguard: Config.MaxRequestBytes %d is below zero", cfg.MaxRequestBytes)
	}
	if cfg.MaxRequestBytes == 0 {
		cfg.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if !isLinkTarget(cfg.Documentation) && cfg.Documentation != "" {
		return errors.New("httpguard: Config.Documentation is neither an http address nor a path")
	}
	var err error
	if cfg.ReplayHeader, err = readNames(cfg.ReplayHeader); err != nil {
		return fmt.Errorf("httpguard: Config.ReplayHeader: %w", err)
	}
	return nil
}
