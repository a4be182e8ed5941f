// Package outbound connects to addresses supplied by third parties: only to public ones, unless the user has named
// them.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/exthost/exthost/internal/proc/sandbox/egress"
)

// Rules restrict where connections may go. Connections use the proxies that the environment states; a proxy may have a
// private address.
type Rules struct {
	// Exempt reports whether an address, host:port, may be private.
	Exempt func(address string) bool
	// Network reports whether any address may be private that is neither loopback nor link-local. Nil: it may not.
	Network func() bool

	proxies sync.Map // hosts of the proxies in use
}

// Transport returns a transport that follows the rules.
func (r *Rules) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = r.proxy
	t.DialContext = r.dial
	return t
}

// proxy records the host of the request's proxy.
func (r *Rules) proxy(req *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(req)
	if u != nil {
		r.proxies.Store(u.Hostname(), true)
	}
	return u, err
}

// dial refuses a name that resolves to a private address; it checks the address actually connected to.
func (r *Rules) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, proxy := r.proxies.Load(host); !proxy && !r.Exempt(address) {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !egress.Public(at.Addr()) && !r.inNetwork(at.Addr().Unmap()) {
				return fmt.Errorf("%s has the private address %s", host, address)
			}
			return nil
		}
	}
	return d.DialContext(ctx, network, address)
}

func (r *Rules) inNetwork(addr netip.Addr) bool {
	return r.Network != nil && addr.IsGlobalUnicast() && r.Network()
}

// Private reports whether a host is private: a private address, or a name that resolves only to private addresses.
func Private(host string) bool {
	if Loopback(host) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && !slices.ContainsFunc(addrs, egress.Public)
}

// Loopback reports whether host is this machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
