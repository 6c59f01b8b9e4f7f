package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// measured is what a load did in all its slices.
type measured struct {
	load
	took      time.Duration
	latencies []time.Duration
	server    usage
	client    usage
}

// slice gives l its turn. The callers that are under way when it ends are waited
// for, and count, as does the time.
func (m *measured) slice(ctx context.Context, cfg Config) error {
	server, client := use(cfg.ServerPID), use(os.Getpid())
	start := time.Now()
	end := start.Add(cfg.Slice)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range m.callers {
		all.Go(func() {
			var latencies []time.Duration
			err := func() error {
				for now := time.Now(); now.Before(end); {
					if err := m.turn(ctx); err != nil {
						return err
					}
					then := now
					now = time.Now()
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
	m.server, m.client = m.server.plus(server()), m.client.plus(client())
	if failed != nil {
		return fmt.Errorf("%s: %w", m.name, failed)
	}
	return nil
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
		Written: float64(m.server.written) / units,
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
