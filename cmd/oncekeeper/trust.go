package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/oncekeeper/oncekeeper/clock"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

// trustFlags say how serve shows who it is, and whom it lets in.
type trustFlags struct {
	TLSCert       string   `name:"tls-cert" env:"ONCEKEEPER_TLS_CERT" group:"Trust" placeholder:"FILE" help:"The service's certificate (PEM, with those that lead to its root), with --tls-key: speak TLS. Read again when it changes."`
	TLSKey        string   `name:"tls-key" env:"ONCEKEEPER_TLS_KEY" group:"Trust" placeholder:"FILE" help:"The private key (PEM) of --tls-cert."`
	TLSClientCA   string   `name:"tls-client-ca" env:"ONCEKEEPER_TLS_CLIENT_CA" group:"Trust" placeholder:"FILE" help:"Certificates (PEM) of those who vouch for callers' certificates."`
	TLSMinVersion string   `name:"tls-min-version" env:"ONCEKEEPER_TLS_MIN_VERSION" group:"Trust" enum:"1.2,1.3" default:"1.3" help:"The oldest TLS that is spoken: ${enum}."`
	JWT           jwtFlags `embed:"" prefix:"jwt-"`
	Principals    string   `name:"principals" env:"ONCEKEEPER_PRINCIPALS" group:"Trust" placeholder:"FILE" help:"Who may call, and do what, YAML. Without one anyone may who reaches the port. Read again when it changes."`
}

// protected: what is said on the way is read by nobody, and strangers are refused.
func (f *trustFlags) protected() bool { return f.TLSCert != "" && f.known() }

// known: it is asked who calls.
func (f *trustFlags) known() bool { return f.Principals != "" || f.JWT.JWKS != "" }

func (f *trustFlags) check() error {
	switch {
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case f.TLSClientCA != "" && f.TLSCert == "":
		return errors.New("--tls-client-ca is of no use without --tls-cert and --tls-key")
	}
	return f.JWT.check()
}

// trusted is what a server is given of all this.
type trusted struct {
	trust   *auth.Trust
	options []grpc.ServerOption
}

// read gives what the files say, and has r keep it so.
func (f *trustFlags) read(ctx context.Context, r *reloader, log *slog.Logger) (trusted, error) {
	var t trusted
	var roots func(*x509.Certificate) bool
	if f.TLSCert != "" {
		live, err := f.liveTLS(ctx, r)
		if err != nil {
			return t, err
		}
		roots = live.trustsRoot
		creds := &toldHandshakes{TransportCredentials: credentials.NewTLS(live.config()), clock: clock.System, log: log}
		t.options = append(t.options, grpc.Creds(creds))
	}
	if !f.known() {
		return t, nil
	}
	t.trust = &auth.Trust{Principals: &auth.Set{}, TrustsRoot: roots}
	if f.Principals != "" {
		live, err := f.livePrincipals(ctx, r)
		if err != nil {
			return t, err
		}
		t.trust.Principals = live
	}
	if f.JWT.JWKS != "" {
		issuer, err := f.JWT.live(ctx, r, log)
		if err != nil {
			return t, err
		}
		t.trust.Issuer = issuer
	}
	return t, nil
}

// livePrincipals gives who may call, and has r keep it what the file says.
func (f *trustFlags) livePrincipals(ctx context.Context, r *reloader) (*auth.Live, error) {
	live := auth.NewLive(&auth.Set{})
	err := r.join(ctx, &reloaded{
		what: "principals file", paths: []string{f.Principals},
		use: func(texts [][]byte) (string, error) {
			set, err := auth.Parse(f.Principals, texts[0])
			if err != nil {
				return "", err
			}
			if name, need := set.NeedCertificates(); need && f.TLSClientCA == "" {
				return "", fmt.Errorf("%s: the principal %s has no token, and nobody vouches for its certificate: give --tls-client-ca", f.Principals, name)
			}
			changes := set.Since(live.Current())
			live.Use(set)
			return changes, nil
		},
	})
	if faults, ok := errors.AsType[auth.Faults](err); ok {
		return nil, fmt.Errorf("the principals file is refused:\n%w", faults)
	}
	return live, err
}
