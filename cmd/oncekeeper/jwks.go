package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// jwtFlags say whose JWTs let callers in.
type jwtFlags struct {
	JWKS     string `name:"jwks" env:"ONCEKEEPER_JWT_JWKS" group:"Trust" placeholder:"FILE|URL" help:"The public keys (JWKS) of who issues JWTs for callers: a file, read again when it changes, or an https URL, asked every five minutes."`
	Issuer   string `name:"issuer" env:"ONCEKEEPER_JWT_ISSUER" group:"Trust" help:"What their iss is."`
	Audience string `name:"audience" env:"ONCEKEEPER_JWT_AUDIENCE" group:"Trust" default:"oncekeeper" help:"What is among their aud."`
	Tenants  string `name:"tenant-claim" env:"ONCEKEEPER_JWT_TENANT_CLAIM" group:"Trust" default:"tenants" help:"The claim that names the caller's tenants: a string, or a list."`
}

func (f *jwtFlags) check() error {
	switch {
	case (f.JWKS == "") != (f.Issuer == ""):
		return errors.New("--jwt-jwks and --jwt-issuer go together")
	case f.JWKS != "" && (f.Audience == "" || f.Tenants == ""):
		return errors.New("--jwt-audience and --jwt-tenant-claim must not be empty: a token for anyone would let in here")
	case f.remote() && !f.private():
		return fmt.Errorf("--jwt-jwks %s: who is on the way could give keys of their own: give an https URL", f.shown())
	}
	return nil
}

func (f *jwtFlags) remote() bool { return strings.Contains(f.JWKS, "://") }

// private: nobody on the way changes what is read.
func (f *jwtFlags) private() bool {
	u, err := url.Parse(f.JWKS)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http" && onThisMachine(u.Host))
}

// shown leaves a password and a query out.
func (f *jwtFlags) shown() string {
	u, err := url.Parse(f.JWKS)
	if err != nil {
		return "(no URL)"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// live gives the issuer, and has its keys kept what the file or the URL says until ctx
// ends.
func (f *jwtFlags) live(ctx context.Context, r *reloader, log *slog.Logger) (*auth.Issuer, error) {
	issuer := &auth.Issuer{Name: f.Issuer, Audience: f.Audience, TenantClaim: f.Tenants}
	if !f.remote() {
		return issuer, r.join(ctx, &reloaded{
			what: "JWKS", paths: []string{f.JWKS},
			use: func(texts [][]byte) (string, error) {
				holds, err := issuer.UseKeys(texts[0])
				if err != nil {
					return "", fmt.Errorf("--jwt-jwks %s: %w", f.JWKS, err)
				}
				return holds, nil
			},
		})
	}
	k := newRemoteKeys(f.JWKS, f.shown(), issuer, log)
	k.look(ctx)
	go k.run(ctx)
	return issuer, nil
}

// How often keys are asked for. An issuer names new keys some time before it uses
// them.
const (
	keysEvery      = 5 * time.Minute
	keysAgainAfter = 10 * time.Second // while they are not known, or not to be had
	keysTimeout    = 10 * time.Second
)

// remoteKeys asks a URL for keys. While it does not answer the keys stay as they were.
type remoteKeys struct {
	url, shown string
	use        func(text []byte) (string, error)
	clock      clock.Clock
	log        *slog.Logger
	timeout    time.Duration
	// unknown has something where a token named a key that is not known.
	unknown chan struct{}
	// said is what the log was last told, so that it is told once.
	said string
	good bool
	// asked is when it was last asked, on the monotonic clock.
	asked time.Duration
}

func newRemoteKeys(from, shown string, issuer *auth.Issuer, log *slog.Logger) *remoteKeys {
	k := &remoteKeys{
		url: from, shown: shown, use: issuer.UseKeys, clock: clock.System, log: log, timeout: keysTimeout,
		unknown: make(chan struct{}, 1),
	}
	issuer.UnknownKey = func() {
		select {
		case k.unknown <- struct{}{}:
		default:
		}
	}
	return k
}

func (k *remoteKeys) run(ctx context.Context) {
	for k.rest(ctx) == nil {
		k.look(ctx)
	}
}

// rest returns when it is time to ask again, or gives why it never will be. A key that
// is not known makes it so, but never sooner than a refusal would: anybody can name one.
func (k *remoteKeys) rest(ctx context.Context) error {
	wait := keysAgainAfter
	if k.good {
		wait = keysEvery
	}
	due := make(chan struct{})
	timer := k.clock.AfterFunc(wait, func() { close(due) })
	defer timer.Stop()
	select {
	case <-k.unknown:
	case <-due:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
	return clock.Sleep(ctx, k.clock, keysAgainAfter-(k.clock.Monotonic()-k.asked))
}

// look asks once.
func (k *remoteKeys) look(ctx context.Context) {
	k.asked = k.clock.Monotonic()
	text, err := k.fetch(ctx)
	holds := ""
	if err == nil {
		holds, err = k.use(text)
	}
	if ctx.Err() != nil {
		return
	}
	if k.good = err == nil; k.good {
		k.tell(holds, func() { k.log.InfoContext(ctx, "the JWKS was read", "url", k.shown, "holds", holds) })
		return
	}
	k.tell(err.Error(), func() {
		k.log.ErrorContext(ctx, "the JWKS cannot be had: the keys in use, if any, stay, and it is asked for again",
			"url", k.shown, "again", keysAgainAfter.String(), "error", err)
	})
}

func (k *remoteKeys) tell(what string, log func()) {
	if k.said != what {
		k.said = what
		log()
	}
}

// keysClient follows no redirection: where keys lie is said by who set this up.
var keysClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (k *remoteKeys) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.timeout, fmt.Errorf("it does not answer within %v", k.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, http.NoBody)
	if err != nil {
		return nil, errors.New("it is no URL")
	}
	res, err := keysClient.Do(req)
	if err != nil {
		return nil, k.reason(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxFileBytes))
	switch {
	case err != nil:
		return nil, k.reason(ctx, err)
	case len(text) == maxFileBytes:
		return nil, errors.New("it has more than 1 MiB")
	}
	return text, nil
}

// reason leaves the URL out of an error, and what is secret in it.
func (k *remoteKeys) reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if in := (*url.Error)(nil); errors.As(err, &in) {
		return in.Err
	}
	return err
}
