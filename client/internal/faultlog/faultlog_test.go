package faultlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestOfManyFaultsOneIsLogged(t *testing.T) {
	var said bytes.Buffer
	l := Log{To: slog.New(slog.NewTextHandler(&said, nil)), Guard: "someguard"}
	for range 1000 {
		l.Report(t.Context(), "shop.Pay", "the tenant is not known", errors.New("no header"))
	}
	line := said.String()
	if strings.Count(line, "\n") != 1 {
		t.Errorf("logged %d lines, want one", strings.Count(line, "\n"))
	}
	for _, part := range []string{"level=ERROR", `"someguard: the tenant is not known"`, "operation=shop.Pay", `error="no header"`} {
		if !strings.Contains(line, part) {
			t.Errorf("logged %s, want %s in it", line, part)
		}
	}
}

func TestAFaultWithoutAnErrorIsLoggedWithoutOne(t *testing.T) {
	var said bytes.Buffer
	l := Log{To: slog.New(slog.NewTextHandler(&said, nil))}
	l.Report(t.Context(), "shop.Pay", "it streams", nil)
	if line := said.String(); line == "" || strings.Contains(line, "error=") {
		t.Errorf("logged %q", line)
	}
}
