//go:build !linux

package peer

import (
	"errors"
	"net/netip"
)

// TCP is not supported on this system.
func TCP(local, remote netip.AddrPort) (Socket, error) { return Socket{}, errors.ErrUnsupported }
