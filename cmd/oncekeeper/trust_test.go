package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
	"github.com/oncekeeper/oncekeeper/server/auth"
)

const goodPrincipals = "principals:\n  - {name: demo, role: caller, tenant: demo, token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n"

// secured is a service that speaks TLS to principals, and its files.
type secured struct {
	*authority
	address string
	log     *lines
}

const (
	shopToken  = "ok_the-shop-s-own-secret"
	clerkToken = "ok_the-clerk-s-own-secret"
)

func principals(tokens ...string) string {
	text := "principals:\n  - {name: pod, role: caller, tenant: demo, certificate: spiffe://example/pod}\n"
	for i, token := range tokens {
		text += fmt.Sprintf("  - {name: p%d, role: caller, tenant: demo, token_sha256: %s}\n", i, auth.TokenDigest(token))
	}
	return text
}

func secure(t *testing.T, flags ...string) *secured {
	t.Helper()
	s := &secured{authority: newAuthority(t, "ca")}
	s.issueService("service")
	s.issue("pod", &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/pod"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	write(t, s.file("principals.yaml"), principals(shopToken))
	s.address, s.log = serving(t, append([]string{
		"--store", "memory:", "--principals", s.file("principals.yaml"),
		"--tls-cert", s.file("service.crt"), "--tls-key", s.file("service.key"), "--tls-client-ca", s.file("ca.crt"),
	}, flags...)...)
	return s
}

func (a *authority) issueService(name string) *x509.Certificate {
	cert, _ := a.issue(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return cert
}

// caller is a connection of its own, with a certificate, a token or neither.
func (s *secured) caller(t *testing.T, name, token string) pb.IdempotencyServiceClient {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(s.cert)
	if name != "" {
		own, err := tls.LoadX509KeyPair(s.file(name+".crt"), s.file(name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	opts := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{token: token, private: true}))
	}
	conn, err := grpc.NewClient(s.address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewIdempotencyServiceClient(conn)
}

// answered fails unless a Get is answered with the code: NotFound is for who may ask.
func answered(t *testing.T, who string, keeper pb.IdempotencyServiceClient, want codes.Code) {
	t.Helper()
	_, err := keeper.Get(t.Context(), &pb.GetRequest{Key: &pb.Key{Tenant: "demo", Operation: "pay", Id: "1"}})
	if status.Code(err) != want {
		t.Errorf("%s is answered %v, want %v", who, err, want)
	}
}

// reload has all files read again, and waits until the log says so.
func (s *secured) reload(t *testing.T, says string) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.log.await(t, says)
}

func TestWhoIsRevokedStopsAtOnceOnAConnectionThatIsOpen(t *testing.T) {
	s := secure(t)
	shop, clerk, pod, nobody := s.caller(t, "", shopToken), s.caller(t, "", clerkToken), s.caller(t, "pod", ""), s.caller(t, "", "")
	answered(t, "shop", shop, codes.NotFound)
	answered(t, "pod", pod, codes.NotFound)
	answered(t, "clerk", clerk, codes.Unauthenticated)
	answered(t, "nobody", nobody, codes.Unauthenticated)

	write(t, s.file("principals.yaml"), principals()+"  - {name: p0, role: king}\n")
	s.reload(t, "the principals file is refused: the one in use stays")
	if said := s.log.String(); !strings.Contains(said, `principals.yaml:3: the role \"king\" is neither caller nor operator`) {
		t.Errorf("of a bad file it said %s", said)
	}
	answered(t, "shop", shop, codes.NotFound)

	write(t, s.file("principals.yaml"), principals(clerkToken))
	s.reload(t, "the principals file was read again")
	answered(t, "shop", shop, codes.Unauthenticated)
	answered(t, "clerk", clerk, codes.NotFound)
	if said := s.log.String(); strings.Contains(said, "secret") {
		t.Errorf("the log has a token: %s", said)
	}
}

func TestWhoeverVouchesNoMoreIsTrustedNoMore(t *testing.T) {
	s := secure(t)
	pod := s.caller(t, "pod", "")
	answered(t, "pod", pod, codes.NotFound)
	other := newAuthority(t, "other")
	text, err := os.ReadFile(other.file("other.crt"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.file("ca.crt"), string(text))
	s.reload(t, "the TLS certificate was read again")
	answered(t, "pod, on the connection that was open", pod, codes.Unauthenticated)
	// Its program sees that nobody would take its certificate, and shows none.
	answered(t, "pod, on a new connection", s.caller(t, "pod", ""), codes.Unauthenticated)
	answered(t, "shop", s.caller(t, "", shopToken), codes.NotFound)
}

func TestACallersCertificateThatExpiredIsRefusedAndTold(t *testing.T) {
	s := secure(t)
	s.issue("old", &x509.Certificate{
		NotAfter: time.Now().Add(-time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/pod"}},
	})
	answered(t, "old", s.caller(t, "old", ""), codes.Unavailable)
	s.log.await(t, "callers fail to begin TLS")
	if said := s.log.String(); !strings.Contains(said, "certificate has expired") {
		t.Errorf("it said %s", said)
	}
}

// shown gives the certificate that a new connection is shown.
func (s *secured) shown(t *testing.T, newest uint16) (*x509.Certificate, error) {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12, MaxVersion: newest}
	config.RootCAs.AddCert(s.cert)
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func TestTheServicesCertificateIsExchangedWhileItServes(t *testing.T) {
	s := secure(t)
	before, err := s.shown(t, tls.VersionTLS13)
	if err != nil {
		t.Fatal(err)
	}
	next := s.issueService("service")
	s.reload(t, "the TLS certificate was read again")
	if after, err := s.shown(t, tls.VersionTLS13); err != nil || !after.Equal(next) || after.Equal(before) {
		t.Errorf("after, %v is shown, %v", after.SerialNumber, err)
	}
	s.issue("service", &x509.Certificate{NotAfter: time.Now().Add(-time.Minute)})
	s.reload(t, "the TLS certificate is refused: the one in use stays")
	if said := s.log.String(); !strings.Contains(said, "nobody would take it") {
		t.Errorf("it said %s", said)
	}
	if after, err := s.shown(t, tls.VersionTLS13); err != nil || !after.Equal(next) {
		t.Errorf("after a bad one, %v is shown, %v", after, err)
	}
}

func TestOldTLSIsSpokenOnlyWhereItIsAskedFor(t *testing.T) {
	if cert, err := secure(t).shown(t, tls.VersionTLS12); err == nil {
		t.Errorf("by TLS 1.2 it shows %v", cert.Subject)
	}
	if _, err := secure(t, "--tls-min-version", "1.2").shown(t, tls.VersionTLS12); err != nil {
		t.Error(err)
	}
}

func TestServeOffLoopbackNeedsTLSAndPrincipals(t *testing.T) {
	ca := newAuthority(t, "ca")
	ca.issueService("service")
	file := filepath.Join(t.TempDir(), "principals.yaml")
	write(t, file, principals(shopToken))
	withTLS := []string{"--tls-cert", ca.file("service.crt"), "--tls-key", ca.file("service.key")}
	withCA := append(withTLS, "--tls-client-ca", ca.file("ca.crt"))
	with := []string{"--principals", file}
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"anyone who reaches it may call", nil},
		{"anyone who reaches it may call", withCA},
		{"tokens would go there for everyone", with},
		{"go together", []string{"--tls-cert", "x"}},
		{"of no use without", []string{"--tls-client-ca", "x"}},
		{"the principal pod has no token, and nobody vouches", append(withTLS, with...)},
		{"reading /nonesuch", append(withTLS, "--principals", "/nonesuch")},
		{"reading /nonesuch", []string{"--principals", file, "--tls-cert", "/nonesuch", "--tls-key", "/nonesuch"}},
		{"--tls-key", []string{"--principals", file, "--tls-cert", file, "--tls-key", file}},
		{"holds no certificate", append(append(withTLS, with...), "--tls-client-ca", file)},
	} {
		code, _, stderr := command(t, append([]string{"serve", "--store", "memory:", "--http", "off", "--listen", "0.0.0.0:0"}, c.flags...)...)
		if code == 0 || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%v exits with %d and says %q, want %q", c.flags, code, stderr, c.want)
		}
	}
	address, _ := serving(t, append(append(withCA, with...), "--store", "memory:", "--listen", "0.0.0.0:0")...)
	if !strings.Contains(address, ":") {
		t.Errorf("it listens on %q", address)
	}
}

func TestATokenThatIsMadeIsTheOneThatItsEntryLetsIn(t *testing.T) {
	code, out, stderr := command(t, "token", "new", "shop", "--tenant", "demo", "--tenant", "de*", "--json")
	var made struct {
		Token     string
		Principal json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || !strings.HasPrefix(made.Token, "ok_") {
		t.Fatalf("it exits with %d: %s%s (%v)", code, out, stderr, err)
	}
	path := filepath.Join(t.TempDir(), "principals.yaml")
	write(t, path, "principals:\n  - "+string(made.Principal)+"\n")
	address, log := serving(t, "--store", "memory:", "--principals", path)
	t.Setenv("ONCEKEEPER_TOKEN", made.Token)
	if code, out, stderr := command(t, "get", "--address", address, "demo", "pay", "1"); code != exitNotFound {
		t.Errorf("with the token, get exits with %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := command(t, "list", "--address", address); code != exitFailed || !strings.Contains(stderr, "may not do this") {
		t.Errorf("a caller's list exits with %d: %s%s", code, out, stderr)
	}
	t.Setenv("ONCEKEEPER_TOKEN", made.Token+"x")
	if code, _, stderr := command(t, "get", "--address", address, "demo", "pay", "1"); code == 0 || !strings.Contains(stderr, "does not know who is asking") {
		t.Errorf("with another token, get exits with %d: %s", code, stderr)
	}
	if said := log.String(); strings.Contains(said, made.Token) {
		t.Errorf("the log has the token: %s", said)
	}
}

func TestATokenForAnEntryThatWouldBeRefusedIsNotMade(t *testing.T) {
	for want, args := range map[string][]string{
		"is not 1 to 128": {"a b", "--tenant", "demo"},
		"two stars":       {"shop", "--tenant", "**"},
		"missing flags":   {"shop"},
		"must be one of":  {"shop", "--tenant", "demo", "--role", "king"},
	} {
		code, out, stderr := command(t, append([]string{"token", "new"}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Contains(out, "ok_") {
			t.Errorf("%v exits with %d: %s%s, want %q", args, code, out, stderr, want)
		}
	}
}
