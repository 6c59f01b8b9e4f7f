package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/clock"
)

// measured is what a load did in all its slices.
type measured struct {
	load
	took      time.Duration
	latencies []time.Duration
	server    usage
	client    usage
	failed    faultCount
}

// slice gives l its turn. The callers that are under way when it ends are waited
// for, and count, as does the time.
func (m *measured) slice(ctx context.Context, length time.Duration) error {
	server, caller, faults := use(m.load.server), use(os.Getpid()), m.faults.now()
	start := time.Now()
	end := start.Add(length)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range m.callers {
		all.Go(func() {
			var latencies []time.Duration
			err := func() error {
				for now := time.Now(); now.Before(end); {
					err := m.turn(ctx)
					then := now
					now = time.Now()
					if m.tried && errors.Is(err, oncekeeper.ErrOverloaded) {
						comeBack(ctx, err, end)
						continue
					}
					if err != nil {
						return err
					}
					latencies = append(latencies, now.Sub(then))
				}
				return nil
			}()
			mu.Lock()
			defer mu.Unlock()
			m.latencies = append(m.latencies, latencies...)
			failed = joined(failed, err)
		})
	}
	all.Wait()
	m.took += time.Since(start)
	m.server, m.client = m.server.plus(server()), m.client.plus(caller())
	m.failed = m.failed.plus(m.faults.now().since(faults))
	if failed != nil {
		return fmt.Errorf("%s: %w", m.name, failed)
	}
	return nil
}

// comeBack waits for as long as the service asked who is told that it is overloaded,
// and no longer than the slice.
func comeBack(ctx context.Context, err error, end time.Time) {
	pause, _ := client.RetryDelay(err)
	_ = clock.Sleep(ctx, clock.System, min(pause, time.Until(end)))
}

// use gives what a process uses from now on, for who asks then. Where that is not
// known it is nothing.
func use(pid int) func() usage {
	before, err := usageOf(pid)
	return func() usage {
		after, errAfter := usageOf(pid)
		if err != nil || errAfter != nil {
			return usage{}
		}
		return usage{cpu: after.cpu - before.cpu, written: after.written - before.written}
	}
}

func (u usage) plus(v usage) usage { return usage{cpu: u.cpu + v.cpu, written: u.written + v.written} }

// result is what a report says of m.
func (m *measured) result() Result {
	slices.Sort(m.latencies)
	units := float64(len(m.latencies) * m.units)
	return Result{
		Load: m.name, Callers: m.callers, Units: int64(units),
		PerSecond: units / m.took.Seconds(),
		P50:       micros(quantile(m.latencies, 0.50)), P99: micros(quantile(m.latencies, 0.99)),
		ServerCPU: micros(m.server.cpu) / units, ClientCPU: micros(m.client.cpu) / units,
		Written:    float64(m.server.written) / units,
		Overloaded: m.failed.overloaded, Failed: m.failed.others,
	}
}

// quantile gives the least that q of the sorted values do not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
