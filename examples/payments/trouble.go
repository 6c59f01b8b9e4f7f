package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	paymentsv1 "github.com/oncekeeper/oncekeeper/examples/payments/proto/payments/v1"
)

// Which debits meet trouble, by their number from 1 on.
const (
	// failEvery: the first two attempts that are about to commit fail instead. Two,
	// so that where both messages of the debit are charged, both have to come back.
	failEvery = 5
	// loseEvery: the first answer that says OK is lost on its way to the caller.
	loseEvery = 7
	// silentEvery: the first commit succeeds, and the database's word of it is lost
	// on its way to the handler.
	silentEvery = 11
)

// trouble is what goes wrong in one run: the same for each way, in each run.
type trouble struct {
	mu   sync.Mutex
	seen map[string]int // how often something has struck, by kind and debit
}

func newTrouble() *trouble { return &trouble{seen: map[string]int{}} }

// strikes says whether a kind of trouble that hits every so many debits hits this
// one now, which it does so many times.
func (t *trouble) strikes(kind, requestID string, every, times int) bool {
	if numberOf(requestID)%every != 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[kind+requestID]++
	return t.seen[kind+requestID] <= times
}

func (t *trouble) beforeCommit(requestID string) error {
	if t.strikes("fail ", requestID, failEvery, 2) {
		return status.Error(codes.Unavailable, "the disk is busy: nothing was written")
	}
	return nil
}

func (t *trouble) afterCommit(requestID string) error {
	if t.strikes("silent ", requestID, silentEvery, 1) {
		return status.Error(codes.Unavailable, "the connection to the database broke at COMMIT")
	}
	return nil
}

// loseAnswers is the network between the caller and the service.
func (t *trouble) loseAnswers(
	ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	debit, ok := request.(*paymentsv1.DebitRequest)
	if err == nil && ok && t.strikes("lose ", debit.GetRequestId(), loseEvery, 1) {
		return status.Error(codes.Unavailable, "the connection broke before the answer came")
	}
	return err
}

const requestIDPrefix = "debit-"

// requestIDOf names the debit of a number, and numberOf reads the number back.
func requestIDOf(number int) string { return fmt.Sprintf("%s%02d", requestIDPrefix, number) }

func numberOf(requestID string) int {
	number, err := strconv.Atoi(strings.TrimPrefix(requestID, requestIDPrefix))
	if err != nil {
		panic("not a request of this example: " + requestID)
	}
	return number
}
