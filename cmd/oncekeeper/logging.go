package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

type logFlags struct {
	Level  slog.Level `env:"ONCEKEEPER_LOG_LEVEL" default:"info" help:"What is logged: debug, info, warn or error."`
	Format string     `env:"ONCEKEEPER_LOG_FORMAT" default:"auto" enum:"auto,text,json" help:"How: ${enum}. auto is text on a terminal and json otherwise."`
}

func (f *logFlags) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: f.Level}
	if f.Format == "text" || f.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
