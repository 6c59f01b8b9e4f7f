package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// credentialFlags say how a command shows who it is, and knows whom it asks. There
// is no flag for a token: a command line is seen by everyone on the machine.
type credentialFlags struct {
	TLS       bool   `name:"tls" env:"ONCEKEEPER_TLS" group:"Trust" help:"Speak TLS. --ca, --cert and --key say so too."`
	CA        string `name:"ca" env:"ONCEKEEPER_CA" group:"Trust" placeholder:"FILE" help:"Certificates (PEM) of those who vouch for the service. Default: the machine's."`
	Cert      string `name:"cert" env:"ONCEKEEPER_CERT" group:"Trust" placeholder:"FILE" help:"This command's own certificate (PEM), with --key."`
	CertKey   string `name:"key" env:"ONCEKEEPER_KEY" group:"Trust" placeholder:"FILE" help:"The private key (PEM) of --cert."`
	TokenFile string `name:"token-file" env:"ONCEKEEPER_TOKEN_FILE" group:"Trust" placeholder:"FILE" help:"A file with the bearer token to show. Default: what ONCEKEEPER_TOKEN holds, if anything."`
}

const tokenVariable = "ONCEKEEPER_TOKEN"

func (f *credentialFlags) usesTLS() bool {
	return f.TLS || f.CA != "" || f.Cert != "" || f.CertKey != ""
}

func (f *credentialFlags) speaks() string {
	if f.usesTLS() {
		return "by TLS"
	}
	return "without TLS"
}

// options are of a connection to address.
func (f *credentialFlags) options(address string) ([]grpc.DialOption, error) {
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	if !f.usesTLS() {
		opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
		if token == "" {
			return opts, nil
		}
		if !onThisMachine(address) {
			return nil, &codedError{fmt.Errorf("a token would go to %s for everyone on the way to read: give --tls, or --ca", address), exitUsage}
		}
		return append(opts, grpc.WithPerRPCCredentials(bearer{token: token})), nil
	}
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	opts := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{token: token, private: true}))
	}
	return opts, nil
}

func (f *credentialFlags) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		raw, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--ca %s holds no certificate in PEM", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.CertKey == "":
	case f.Cert == "" || f.CertKey == "":
		return nil, &codedError{errors.New("--cert and --key go together"), exitUsage}
	default:
		own, err := tls.LoadX509KeyPair(f.Cert, f.CertKey)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// token gives none where none is to be shown. No error repeats it.
func (f *credentialFlags) token() (string, error) {
	from, token := tokenVariable, os.Getenv(tokenVariable)
	if f.TokenFile != "" {
		raw, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		from, token = "--token-file "+f.TokenFile, string(raw)
		if strings.TrimSpace(token) == "" {
			return "", fmt.Errorf("%s is empty", from)
		}
	}
	token = strings.TrimSpace(token)
	if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }) {
		return "", fmt.Errorf("%s does not hold one token: it has spaces, line ends or other than ASCII within", from)
	}
	return token, nil
}

// onThisMachine: what goes to address leaves this machine never.
func onThisMachine(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// bearer shows a token with each call.
type bearer struct {
	token   string
	private bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return b.private }
