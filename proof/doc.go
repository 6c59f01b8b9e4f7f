// Package proof shows that the service is linearizable and loses nothing it answered:
// real servers, random concurrent callers, faults, and a check of all that was
// answered. It consists of tests alone; docs/proof.md says what they try and how to
// run them again.
package proof
