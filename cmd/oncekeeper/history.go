package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/grpc/codes"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

// printHistory prints what a key went through, a line an entry, oldest first.
func printHistory(w io.Writer, rec *pb.KeyRecord) error {
	if len(rec.GetHistory()) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(t, "\nwhat it went through\n")
	// Where anyone may call nobody is known.
	known := slices.ContainsFunc(rec.GetHistory(), func(e *pb.HistoryEntry) bool { return e.GetPrincipal() != "" })
	by := func(principal string) string {
		if !known {
			return ""
		}
		return dash(principal) + "\t"
	}
	_, _ = fmt.Fprintln(t, "WHAT\tATTEMPT\tFENCING TOKEN\tHOLDER\t"+by("PRINCIPAL")+"STARTED\tENDED\tSAID")
	for _, e := range rec.GetHistory() {
		attempt := ""
		if e.GetAttemptNumber() > 0 {
			attempt = fmt.Sprint(e.GetAttemptNumber())
		}
		said := e.GetReason()
		if s := e.GetStatus(); s != nil {
			said = strings.TrimSuffix(fmt.Sprintf("%s: %s", codes.Code(s.GetCode()), s.GetMessage()), ": ")
		}
		line := strings.Join([]string{
			strings.TrimPrefix(e.GetEvent().String(), "EVENT_"), dash(attempt), fmt.Sprint(e.GetFencingToken()),
			dash(printable(e.GetHolder())), by(printable(e.GetPrincipal())) + dash(moment(e.GetStartTime())), dash(moment(e.GetEndTime())), dash(printable(said)),
		}, "\t")
		_, _ = fmt.Fprintln(t, line)
	}
	return t.Flush()
}

// dash stands for nothing, so that a column is seen to be empty.
func dash(s string) string { return cmp.Or(s, "-") }
