package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/oncekeeper/oncekeeper/clock"
)

// liveTLS is how the service speaks TLS, exchanged whole when its files change. What
// was begun goes on with the certificate that it was begun with.
type liveTLS struct {
	now atomic.Pointer[tlsInUse]
}

type tlsInUse struct {
	config *tls.Config
	// roots vouch for callers; nil where nobody is asked for a certificate.
	roots []*x509.Certificate
}

// config asks for what is in use at every handshake. No session is resumed: that
// would let a certificate in that was judged before.
func (l *liveTLS) config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12, // what is in use says more
		SessionTicketsDisabled: true,
		GetConfigForClient:     func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.now.Load().config, nil },
	}
}

// trustsRoot: a connection is open for long, and who vouched for its caller may be
// trusted no more.
func (l *liveTLS) trustsRoot(root *x509.Certificate) bool {
	return slices.ContainsFunc(l.now.Load().roots, root.Equal)
}

// liveTLS reads the files, and has r keep what is in use what they say.
func (f *trustFlags) liveTLS(ctx context.Context, r *reloader) (*liveTLS, error) {
	live, paths := &liveTLS{}, []string{f.TLSCert, f.TLSKey}
	if f.TLSClientCA != "" {
		paths = append(paths, f.TLSClientCA)
	}
	return live, r.join(ctx, &reloaded{
		what: "TLS certificate", paths: paths,
		use: func(texts [][]byte) (string, error) {
			next, err := f.parseTLS(texts, time.Now())
			if err != nil {
				return "", err
			}
			live.now.Store(next)
			until := next.config.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339)
			return fmt.Sprintf("good until %s; %d vouch for callers", until, len(next.roots)), nil
		},
	})
}

// parseTLS takes the certificate, its key and, if any, who vouches for callers.
func (f *trustFlags) parseTLS(texts [][]byte, now time.Time) (*tlsInUse, error) {
	own, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", f.TLSCert, f.TLSKey, err)
	}
	if now.After(own.Leaf.NotAfter) {
		return nil, fmt.Errorf("--tls-cert %s expired at %s: nobody would take it", f.TLSCert, own.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	next := &tlsInUse{config: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, SessionTicketsDisabled: true}}
	if f.TLSMinVersion == "1.2" {
		next.config.MinVersion = tls.VersionTLS12
	}
	if len(texts) < 3 {
		return next, nil
	}
	if next.roots, err = parseCertificates(texts[2]); err != nil {
		return nil, fmt.Errorf("--tls-client-ca %s: %w", f.TLSClientCA, err)
	}
	next.config.ClientCAs = x509.NewCertPool()
	for _, root := range next.roots {
		next.config.ClientCAs.AddCert(root)
	}
	// Where principals are known, a token may stand for a certificate.
	next.config.ClientAuth = tls.RequireAndVerifyClientCert
	if f.known() {
		next.config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return next, nil
}

func parseCertificates(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return all, nil
}

// toldHandshakes logs why handshakes fail, once in a while: a caller whose
// certificate expired is told so little that somebody has to look here.
type toldHandshakes struct {
	credentials.TransportCredentials
	clock clock.Clock
	log   *slog.Logger

	mu     sync.Mutex
	failed int
	next   time.Duration
}

// handshakeLogInterval is between two lines of log.
const handshakeLogInterval = 10 * time.Second

// ServerHandshake implements credentials.TransportCredentials.
func (h *toldHandshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, io.EOF) { // who only looks whether the port is there says nothing
		h.tell(err)
	}
	return conn, info, err
}

func (h *toldHandshakes) tell(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed++
	if now := h.clock.Monotonic(); h.failed == 1 || now >= h.next {
		h.log.Warn("callers fail to begin TLS", "failed", h.failed, "error", err)
		h.next = now + handshakeLogInterval
	}
}
