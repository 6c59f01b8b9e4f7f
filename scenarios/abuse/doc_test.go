// Package abuse has clients that break the manners of HTTP/2 and gRPC call the built
// binary, while others go on: what they are answered stays right, and what the server
// takes for the rest of them is bounded and given back. It consists of tests alone.
package abuse
