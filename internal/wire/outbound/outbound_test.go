package outbound

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/proc/sandbox/egress"
)

// A private address is connected to where Network says that the network has such addresses for public names. This
// machine's own loopback addresses stay out of reach.
func TestNetwork(t *testing.T) {
	home := privateAddress(t)
	for address, want := range map[string]struct{ private, network bool }{
		home.String(): {false, true},
		"127.0.0.1":   {false, false},
	} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		none := Rules{Exempt: func(string) bool { return false }}
		network := Rules{Exempt: none.Exempt, Network: func() bool { return true }}
		dials(t, &none, l.Addr().String(), want.private)
		dials(t, &network, l.Addr().String(), want.network)
	}
}

func dials(t *testing.T, r *Rules, address string, want bool) {
	t.Helper()
	c, err := r.dial(t.Context(), "tcp", address)
	if err == nil {
		c.Close()
	} else if !strings.Contains(err.Error(), "has the private address") {
		t.Errorf("%s: %v", address, err)
	}
	if (err == nil) != want {
		t.Errorf("%s: %v, want a connection: %v", address, err, want)
	}
}

// privateAddress returns a private address of this machine that is not a loopback address.
func privateAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() && !egress.Public(prefix.Addr()) {
			return prefix.Addr()
		}
	}
	t.Skip("NOT TESTED: this machine has no private address")
	return netip.Addr{}
}
