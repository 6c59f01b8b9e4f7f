package server

import (
	"net"
	"testing"
)

// A host has 2^64 addresses of IPv6, and is one.
func TestConnectionsAreOfOneHostWhateverAddressesItHas(t *testing.T) {
	for _, c := range []struct {
		a, b string
		one  bool
	}{
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::7", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
	} {
		of := func(ip string, port int) string { return hostOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: port}) }
		if one := of(c.a, 1) == of(c.b, 2); one != c.one {
			t.Errorf("%s and %s: one host %t, want %t", c.a, c.b, one, c.one)
		}
	}
	if of := hostOf(&net.UnixAddr{Name: "/run/once", Net: "unix"}); of != "/run/once" {
		t.Errorf("of a socket in the file system it is %q", of)
	}
}
