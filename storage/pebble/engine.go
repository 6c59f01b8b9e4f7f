package pebble

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/oncekeeper/oncekeeper"
)

// Where Pebble fails, what is on disk is no longer known, and the store ends: it
// refuses every call from then on, and whoever serves it ends the process.

// engineLogger is Pebble's logger. Pebble expects Fatalf not to return, and calls
// it in whatever goroutine met the fault.
type engineLogger struct {
	log  *slog.Logger
	fail func(error) error
}

func (l *engineLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble", "said", fmt.Sprintf(format, args...))
}

func (l *engineLogger) Errorf(format string, args ...any) {
	l.log.Warn("pebble", "said", fmt.Sprintf(format, args...))
}

// Fatalf ends the store and unwinds: this package's own goroutines recover, in
// guarded; in one of Pebble's the process ends here, as it does with Pebble's own
// logger.
func (l *engineLogger) Fatalf(format string, args ...any) {
	panic(l.fail(fmt.Errorf(format, args...)))
}

// damaged is told of a file that does not read back as it was written. The read
// itself gives an error. Keys are left out of what is said.
func (s *Store) damaged(info pebble.DataCorruptionInfo) {
	_ = s.fail(fmt.Errorf("%s is damaged: restore a backup", info.Path))
}

// guarded calls f and has a panic of the engine's, or of a fault in this package,
// end the store rather than the process.
func (s *Store) guarded(f func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = s.fail(fmt.Errorf("%v", fault))
		}
	}()
	return f()
}

// fail ends the store and gives what callers get. The first cause counts.
func (s *Store) fail(cause error) error {
	f := &failure{err: fmt.Errorf("%w: the store in %s has failed, and what it holds is not known until it is opened anew: %w",
		oncekeeper.ErrStoreUnavailable, s.cfg.Dir, cause)}
	if !s.failure.CompareAndSwap(nil, f) {
		return s.failure.Load().err
	}
	s.cfg.Logger.Error("the embedded store ends", "dir", s.cfg.Dir, "error", cause)
	if s.cfg.OnFatal != nil {
		go s.cfg.OnFatal(f.err)
	}
	return f.err
}
