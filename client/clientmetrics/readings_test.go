package clientmetrics

import (
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekeeper/oncekeeper/metrics"
)

func TestEveryCountOfASnapshotHasASeriesOfItsOwn(t *testing.T) {
	each(t, ofClient)
	each(t, ofGRPC)
	each(t, ofHTTP)
	each(t, ofInbox)
}

// each sets one field of S after the other, and looks for it.
func each[S any](t *testing.T, readings []metrics.Reading[S]) {
	t.Helper()
	seen := map[string]string{}
	of := reflect.TypeFor[S]()
	for i := range of.NumField() {
		field := of.String() + "." + of.Field(i).Name
		var s S
		reflect.ValueOf(&s).Elem().Field(i).SetInt(7)
		moved := moved(t, readings, s)
		if len(moved) != 1 || seen[moved[0]] != "" {
			t.Errorf("%s is shown by %q, want one series that no other count is shown by", field, moved)
			continue
		}
		seen[moved[0]] = field
	}
}

// moved names the series of a snapshot that are not 0.
func moved[S any](t *testing.T, readings []metrics.Reading[S], s S) (series []string) {
	t.Helper()
	which := map[string]string{guardLabel.Name: "grpc", subscriberLabel.Name: "invoices"}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(metrics.CollectOne(which, func() S { return s }, readings))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				series = append(series, f.GetName()+m.String())
			}
		}
	}
	return series
}
