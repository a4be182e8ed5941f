//go:build !linux

package daemon

import "net"

// peer trusts the mode of the socket and of its directory.
func peer(_ *net.UnixConn, own int) (uid int, err error) { return own, nil }
