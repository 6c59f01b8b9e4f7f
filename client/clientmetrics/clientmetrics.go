// Package clientmetrics shows a caller's process the numbers of its client, its
// guards and its inboxes, where it has Prometheus and wants them:
//
//	reg.MustRegister(clientmetrics.Client(keeper), clientmetrics.GRPC(guard))
//
// Whoever does not import it has no Prometheus of ours. What it shows counts by
// itself, and knows nobody who reads. No label is a caller's word.
package clientmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekeeper/oncekeeper/client"
	"github.com/oncekeeper/oncekeeper/client/grpcguard"
	"github.com/oncekeeper/oncekeeper/client/httpguard"
	"github.com/oncekeeper/oncekeeper/client/inbox"
	"github.com/oncekeeper/oncekeeper/metrics"
)

// Two of one kind in one registry (two clients, say) are told apart by a label of
// yours: prometheus.WrapRegistererWith.

// Client collects what a client did beside the service.
func Client(c *client.Client) prometheus.Collector { return metrics.Collect(c.Stats, ofClient) }

// GRPC collects the numbers of a guard of a gRPC server, as guard="grpc".
func GRPC(g *grpcguard.Guard) prometheus.Collector {
	return metrics.CollectOne(which("grpc"), g.Stats, ofGRPC)
}

// Outgoing collects those of a guard of a gRPC client, as guard="grpc_outgoing".
func Outgoing(o *grpcguard.Outgoing) prometheus.Collector {
	return metrics.CollectOne(which("grpc_outgoing"), o.Stats, ofGRPC)
}

// HTTP collects those of a guard of an HTTP server, as guard="http".
func HTTP(g *httpguard.Guard) prometheus.Collector {
	return metrics.CollectOne(which("http"), g.Stats, ofHTTP)
}

// Inbox collects the numbers of a subscriber, as subscriber="its name".
func Inbox(i *inbox.Inbox) prometheus.Collector {
	return metrics.CollectOne(map[string]string{subscriberLabel.Name: i.Subscriber()}, i.Stats, ofInbox)
}

func which(guard string) map[string]string { return map[string]string{guardLabel.Name: guard} }

// Metrics describes what the collectors of this package give.
func Metrics() []metrics.Section {
	return []metrics.Section{
		{Title: "In the caller's process: the client", Text: inProcess + " This is what it did beside the service.", Metrics: metrics.Of(ofClient)},
		{Title: "In the caller's process: guards", Metrics: guards()},
		{Title: "In the caller's process: inboxes", Metrics: metrics.Of(ofInbox)},
	}
}

const inProcess = "Of a Go program that has Prometheus and asks for it, in one line: " +
	"`reg.MustRegister(clientmetrics.Client(keeper), clientmetrics.GRPC(guard))`, with `client/clientmetrics`. " +
	"Whatever its callers send, its series are as many as it has clients, guards and subscribers."

// guards describes what guards give: those of HTTP have all metrics, and those of
// gRPC all results.
func guards() []metrics.Metric {
	all := metrics.Of(ofHTTP)
	all[0] = ofGRPC[0].Metric
	return all
}
