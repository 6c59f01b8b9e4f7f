package grpcguard

import (
	"testing"

	"google.golang.org/grpc/metadata"
)

// A handler may leave a goroutine that goes on setting.
func TestWhatWasTakenStaysAsItWas(t *testing.T) {
	c := &capture{}
	set := func(value string) {
		md := metadata.Pairs("which", value)
		if err := c.SetHeader(md); err != nil {
			t.Fatal(err)
		}
		if err := c.SetTrailer(md); err != nil {
			t.Fatal(err)
		}
		md["which"][0] = "changed by its maker" // it is the maker's own
	}
	set("first")
	header, trailer := c.taken()
	set("second")
	for name, md := range map[string]metadata.MD{"header": header, "trailer": trailer} {
		if got := md["which"]; len(got) != 1 || got[0] != "first" {
			t.Errorf("the %s that was taken is now %q, want first alone", name, got)
		}
	}
	if header, _ := c.taken(); len(header["which"]) != 2 {
		t.Errorf("taken again the header is %q, want both", header["which"])
	}
}
