package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncekeeper/oncekeeper/server"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// authority vouches for certificates, which it writes into a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.crt and NAME.key.
func (a *authority) issue(name string, cert *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert.SerialNumber, cert.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	cert.NotBefore = time.Now().Add(-time.Hour)
	if cert.NotAfter.IsZero() {
		cert.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = cert, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{a.file(name + ".crt"): {Type: "CERTIFICATE", Bytes: raw}, a.file(name + ".key"): {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// servingWith serves with options, and gives the address.
func servingWith(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	store, err := pebble.Open(pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{Store: store, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(srv.Shutdown(ctx), <-served, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// asking refuses who does not show the token.
func asking(token string) grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		shown, _ := metadata.FromIncomingContext(ctx)
		if got := shown.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+token {
			return nil, status.Error(codes.Unauthenticated, "who are you?")
		}
		return handler(ctx, req)
	})
}

const secret = "s3cret-token"

func TestEveryCommandReachesAServiceThatAsksForCertificatesAndAToken(t *testing.T) {
	ca := newAuthority(t, "ca")
	ca.issue("service", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	ca.issue("operator", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	own, err := tls.LoadX509KeyPair(ca.file("service.crt"), ca.file("service.key"))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	address := servingWith(t, asking(secret), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	})))
	tokenFile := ca.file("token")
	if err := os.WriteFile(tokenFile, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := []string{"--address", address, "--ca", ca.file("ca.crt"), "--cert", ca.file("operator.crt"), "--key", ca.file("operator.key")}
	other := newAuthority(t, "other")
	for _, c := range []struct {
		name  string
		token string
		flags []string
		says  string
	}{
		{"all of it", secret, whole, ""},
		{"a token from a file", "wrong", append(whole, "--token-file", tokenFile), ""},
		{"no token", "", whole, "ONCEKEEPER_TOKEN or --token-file"},
		{"another token", "wrong", whole, "ONCEKEEPER_TOKEN or --token-file"},
		{"no certificate", secret, whole[:4], "asked by TLS"},
		{"another authority", secret, append(whole, "--ca", other.file("other.crt")), "certificate"},
		{"no TLS", "", []string{"--address", address}, "asked without TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(tokenVariable, c.token)
			for _, words := range [][]string{{"list"}, {"sweep", "--dry-run"}} {
				code, stdout, stderr := command(t, append(words, append(c.flags, "--timeout", "5s")...)...)
				if (code == 0) != (c.says == "") || !strings.Contains(stderr, c.says) {
					t.Errorf("%v exits with %d and says %q, want %q", words, code, stderr, c.says)
				}
				if strings.Contains(stdout+stderr, secret) {
					t.Errorf("the token is printed: %s%s", stdout, stderr)
				}
			}
		})
	}
	t.Run("from the environment alone", func(t *testing.T) {
		t.Setenv(tokenVariable, secret)
		for name, value := range map[string]string{
			"ADDRESS": address, "CA": ca.file("ca.crt"), "CERT": ca.file("operator.crt"), "KEY": ca.file("operator.key"),
		} {
			t.Setenv("ONCEKEEPER_"+name, value)
		}
		if code, stdout, stderr := command(t, "list"); code != 0 {
			t.Errorf("it exits with %d: %s%s", code, stdout, stderr)
		}
		if code, _, stderr := command(t, "get", "demo", "greet", "1"); code != exitNotFound {
			t.Errorf("it exits with %d: %s", code, stderr)
		}
	})
}

func TestATokenGoesInPlainTextOnThisMachineAlone(t *testing.T) {
	t.Setenv(tokenVariable, secret)
	address := servingWith(t, asking(secret))
	if code, _, stderr := command(t, "list", "--address", address); code != 0 {
		t.Errorf("on this machine it exits with %d: %s", code, stderr)
	}
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "unix:/run/s": true, "unix:///run/s": true,
		"10.0.0.1:1": false, "db:8460": false, "dns:///db:8460": false, "localhost.example.com:1": false, "0.0.0.0:1": false, "db": false,
	} {
		if got := onThisMachine(address); got != want {
			t.Errorf("%s is taken for this machine: %v, want %v", address, got, want)
		}
	}
	code, _, stderr := command(t, "list", "--address", "db.example.com:8460")
	if code != exitUsage || !strings.Contains(stderr, "give --tls") || strings.Contains(stderr, secret) {
		t.Errorf("off this machine it exits with %d: %s", code, stderr)
	}
}

func TestCredentialsThatCannotBeReadSayWhichAndRepeatNothing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"--ca: open", []string{"--ca", "/nonesuch"}},
		{"holds no certificate in PEM", []string{"--ca", file("ca", secret)}},
		{"--cert and --key go together", []string{"--cert", file("cert", "")}},
		{"--cert and --key go together", []string{"--key", file("key", "")}},
		{"--cert and --key:", []string{"--cert", file("cert", secret), "--key", file("key", secret)}},
		{"--token-file: open", []string{"--token-file", "/nonesuch"}},
		{"is empty", []string{"--token-file", file("empty", " \n")}},
		{"does not hold one token", []string{"--token-file", file("two", secret+"\n"+secret)}},
	} {
		code, stdout, stderr := command(t, append([]string{"list"}, c.flags...)...)
		if code == 0 || !strings.Contains(stderr, c.want) || strings.Contains(stdout+stderr, secret) {
			t.Errorf("%v exits with %d and says %q, want %q", c.flags, code, stderr, c.want)
		}
	}
}
