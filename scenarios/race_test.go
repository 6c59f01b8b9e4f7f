package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/internal/served"
)

// raced is what one client process saw.
type raced struct {
	Ran     int
	Answers []string
	Errors  []string
}

const racers = 67 // in each of three processes: 201 callers

// raceAsClient is a client process: it races its callers for one key and prints
// what each got.
func raceAsClient() int {
	var job struct{ Address, ID string }
	if err := json.Unmarshal([]byte(os.Getenv(clientRole)), &job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	conn, err := served.Dial(job.Address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	keeper := client.New(conn)
	key := oncekeeper.Key{Tenant: "acme", Operation: "race", ID: job.ID}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var (
		mu   sync.Mutex
		seen raced
		all  sync.WaitGroup
	)
	for range racers {
		all.Go(func() {
			answer, err := client.Do(ctx, keeper, key, func(context.Context, *client.Attempt) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				seen.Ran++
				return fmt.Appendf(nil, "answer of process %d at %d", os.Getpid(), time.Now().UnixNano()), nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				seen.Errors = append(seen.Errors, err.Error())
			}
			seen.Answers = append(seen.Answers, string(answer))
		})
	}
	all.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		return 1
	}
	return 0
}

func TestTwoHundredCallersOfThreeProcessesRaceOneKeyAndOneRuns(t *testing.T) {
	address := served.FreeAddress(t)
	server := served.Start(t, "pebble:"+t.TempDir(), address)
	for round := range 5 {
		job, err := json.Marshal(map[string]string{"Address": address, "ID": fmt.Sprint(round)})
		if err != nil {
			t.Fatal(err)
		}
		var clients [3]*exec.Cmd
		var outs, errs [3]bytes.Buffer
		for i := range clients {
			clients[i] = exec.CommandContext(t.Context(), os.Args[0])
			clients[i].Env = append(os.Environ(), clientRole+"="+string(job))
			clients[i].Stdout, clients[i].Stderr = &outs[i], &errs[i]
			if err := clients[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		ran, answers := 0, map[string]int{}
		for i := range clients {
			if err := clients[i].Wait(); err != nil {
				t.Fatalf("client process: %v: %s", err, errs[i].String())
			}
			var seen raced
			if err := json.Unmarshal(outs[i].Bytes(), &seen); err != nil {
				t.Fatalf("client process printed %q: %v", outs[i].String(), err)
			}
			ran += seen.Ran
			for _, e := range seen.Errors {
				t.Errorf("a caller got the error %s", e)
			}
			for _, a := range seen.Answers {
				answers[a]++
			}
		}
		if ran != 1 || len(answers) != 1 {
			t.Fatalf("round %d: %d ran, and the answers are %v; want one run and %d equal answers", round, ran, answers, 3*racers)
		}
		for _, n := range answers {
			if n != 3*racers {
				t.Errorf("round %d: %d answers, want %d", round, n, 3*racers)
			}
		}
	}
	server.Stop(t)
}
