package egress

import (
	"net"
	"net/netip"
)

// notPublic are networks without public hosts that netip does not report as private or local: special uses of RFC 6890,
// and translations that embed another address. IPv6 networks outside of assigned are not listed.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform service
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

// assigned is the part of IPv6 with global unicast addresses.
var assigned = netip.MustParsePrefix("2000::/3")

// beside reports whether addr is in a network of this machine: a machine with a public address may have services in its
// network that are not public. It returns true if the networks are unknown.
func beside(addr netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.Contains(addr.Unmap().AsSlice()) {
			return true
		}
	}
	return false
}

// Public reports whether addr can be the address of an internet host.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.Is6() && !assigned.Contains(addr) {
		return false
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Zone() != "" {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}
