// Payments debits an account in four ways under the same trouble, and shows which
// of them charge right.
//
//	go run ./examples/payments
//
// There is 1,000 on the account and fifty debits of 10 to make. Each debit is sent
// twice, as an impatient caller, a queue or a proxy does, by four workers at once;
// whoever gets UNAVAILABLE sends again. Some debits fail before they commit, some
// commit and are not heard of, some answers are lost on the way: trouble.go says
// which. 500 and fifty rows should be left.
//
// # How to read it
//
// unguarded.go, checkthenact.go and recordfirst.go are what people write; look for
// your own. guarded.go is the same handler behind Oncekeeper's guard. All four
// stand on service.go and bank.go, and are sent the same messages by experiment.go
// with the same retries. main.go tells it in order.
//
// # Why the table is the same each time
//
// Trouble strikes by the number of a debit and not at random. And a race that is
// lost once in a thousand is lost here every time: every handler has a slow step,
// as real ones do, and twins.go makes it last until the debit's other message has
// come as far, or cannot come any more. Nothing depends on how fast the machine is.
//
// # What it does not show
//
// No process is killed: a holder that dies is found out when its lease runs out,
// which takes longer than anyone wants to watch.
//
// A unique request_id on the row of the debit, in the transaction that makes it,
// would be exact as well. It covers what that one database holds, while nothing
// else happens in the handler, and leaves its author to give a second caller the
// first one's answer, to tell a reused key from a retry, and to have callers wait.
// With a guard it is still worth having: it also stops an attempt that lost its
// lease and does not know it yet.
package main
