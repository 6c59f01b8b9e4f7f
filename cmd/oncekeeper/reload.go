package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oncekeeper/oncekeeper/clock"
)

// reloadEvery is how often files are looked at. Their bytes are compared: that
// works on every file system, and whatever way a file was exchanged (written over,
// renamed over, or behind a link that was turned, as Kubernetes does it).
const reloadEvery = 2 * time.Second

// maxFileBytes bounds what is read of a file: one byte more than any may have, so
// that its reader refuses it.
const maxFileBytes = 1<<20 + 1

// reloader reads again what serve was given in files: soon after they change, and
// at once on SIGHUP. Whatever comes from files joins it, so that one signal is
// enough for all.
type reloader struct {
	clock clock.Clock
	log   *slog.Logger
	files []*reloaded
}

// reloaded is something that is read from files while the server runs.
type reloaded struct {
	// what it is, as the log calls it.
	what string
	// paths are read and used together.
	paths []string
	// use takes what paths hold into use, and says what changed; or why it does not,
	// and then what was in use stays.
	use func(texts [][]byte) (changes string, err error)

	// offered is what use was last given, and seen what was there at the last look.
	offered, seen digest
	// unread is why the files could not be read at the last look.
	unread string
}

type digest [sha256.Size]byte

// join reads f for the first time; all join before start. What is wrong with f is
// the caller's to tell, and f has not joined.
func (r *reloader) join(ctx context.Context, f *reloaded) error {
	texts, sum, err := f.read()
	if err != nil {
		return err
	}
	if _, err := f.use(texts); err != nil {
		return err
	}
	f.offered, f.seen = sum, sum
	r.files = append(r.files, f)
	r.log.InfoContext(ctx, "the "+f.what+" was read", "files", f.paths)
	return nil
}

// start reads the files again until stop is called or ctx ends. SIGHUP is caught
// until stop, whether there is anything to read or not: it must never end a server.
func (r *reloader) start(ctx context.Context) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go r.run(ctx, hangups)
	return func() {
		cancel()
		signal.Stop(hangups)
	}
}

// run looks at the files until ctx ends. A look that hangs in its file system is
// left behind then.
func (r *reloader) run(ctx context.Context, hangups <-chan os.Signal) {
	for {
		due := make(chan struct{})
		timer := r.clock.AfterFunc(reloadEvery, func() { close(due) })
		select {
		case <-due:
			for _, f := range r.files {
				r.look(ctx, f)
			}
		case <-hangups:
			r.reload(ctx)
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// reload is what SIGHUP asks for: all is read and used, changed or not.
func (r *reloader) reload(ctx context.Context) {
	if len(r.files) == 0 {
		r.log.InfoContext(ctx, "SIGHUP: nothing is read from files")
	}
	for _, f := range r.files {
		texts, sum, err := f.read()
		if err != nil {
			r.refused(ctx, f, err)
			continue
		}
		r.offer(ctx, f, texts, sum)
	}
}

// look uses what changed once two looks find the same: what is there at one may be
// half written. Nor is a file that is gone for a moment worth a word.
func (r *reloader) look(ctx context.Context, f *reloaded) {
	texts, sum, err := f.read()
	if err != nil {
		if again := err.Error(); f.unread != again {
			f.unread = again
		} else if f.seen != (digest{}) {
			f.seen = digest{}
			r.refused(ctx, f, err)
		}
		return
	}
	f.unread = ""
	settled := f.seen == sum
	f.seen = sum
	if settled && f.offered != sum {
		r.offer(ctx, f, texts, sum)
	}
}

func (r *reloader) offer(ctx context.Context, f *reloaded, texts [][]byte, sum digest) {
	f.offered, f.seen = sum, sum
	changes, err := f.use(texts)
	if err != nil {
		r.refused(ctx, f, err)
		return
	}
	r.log.InfoContext(ctx, "the "+f.what+" was read again", "changes", changes)
}

func (r *reloader) refused(ctx context.Context, f *reloaded, err error) {
	r.log.ErrorContext(ctx, "the "+f.what+" is refused: the one in use stays", "error", err)
}

// read gives what f's files hold now.
func (f *reloaded) read() ([][]byte, digest, error) {
	texts, sum := make([][]byte, len(f.paths)), sha256.New()
	for i, path := range f.paths {
		text, err := readBounded(path)
		if err != nil {
			return nil, digest{}, err
		}
		texts[i] = text
		each := sha256.Sum256(text)
		sum.Write(each[:])
	}
	return texts, digest(sum.Sum(nil)), nil
}

// readBounded reads a regular file, up to maxFileBytes.
func readBounded(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, cause(err))
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("reading %s: it is not a file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, cause(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, cause(err))
	}
	return text, nil
}

// cause leaves out what a path error says beside it: the call and the path.
func cause(err error) error {
	if in := (*os.PathError)(nil); errors.As(err, &in) {
		return in.Err
	}
	return err
}
