package inprocess_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/inprocess"
	"github.com/oncekeeper/oncekeeper/storage/pebble"
)

// An invoice is sent once, with no service to run. Later, the line that makes the
// client becomes client.New(conn).
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := pebble.Open(pebble.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	keeper, err := inprocess.Open(inprocess.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	c := keeper.Client()
	for range 3 {
		key := oncekeeper.Key{Tenant: "acme", Operation: "invoices.send", ID: "invoice-7"}
		number, err := client.Do(ctx, c, key, func(context.Context, *client.Attempt) (int, error) {
			fmt.Println("sending")
			return 4711, nil
		})
		fmt.Println(number, err)
	}
	if err := keeper.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// sending
	// 4711 <nil>
	// 4711 <nil>
	// 4711 <nil>
}
