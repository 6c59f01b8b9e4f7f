// Webhook takes signed deliveries from another company's service, each once.
//
//	go run ./examples/webhook
//
// Whoever sends webhooks sends them at least once: until they are acknowledged, in
// any order, and again when somebody presses "resend". Anyone else can send to the
// same address. So a receiver does four things, in this order:
//
//  1. It checks the signature, over the bytes as they came, and how old they are:
//     signature.go.
//  2. It takes each delivery id once, and refuses another body under an old id:
//     receiver.go, with client/inbox.
//  3. It queues the work and answers at once. What it cannot queue it does not
//     acknowledge, and the sender keeps it.
//  4. The work is done once, and in any order: worker.go. Amounts add up whichever
//     comes first; of what replaces, the newest version stays.
//
// The queue here is in memory, so that the example needs nothing: with that, a
// process that dies loses what it acknowledged. Yours is a broker, or a table.
package main
