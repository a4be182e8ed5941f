package peer

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// search finds the socket from source to destination in /proc/net. An IPv6 socket may carry an IPv4 connection, so both
// lists are searched.
func search(source, destination netip.AddrPort) (Socket, error) {
	six := func(a netip.AddrPort) string { return listed(netip.AddrFrom16(a.Addr().As16()), a.Port()) }
	if source.Addr().Unmap().Is4() {
		four := func(a netip.AddrPort) string { return listed(a.Addr().Unmap(), a.Port()) }
		s, err := searchIn("/proc/net/tcp", four(source), four(destination))
		if err == nil {
			return s, nil
		}
	}
	return searchIn("/proc/net/tcp6", six(source), six(destination))
}

func searchIn(list, source, destination string) (Socket, error) {
	f, err := os.Open(list)
	if err != nil {
		return Socket{}, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// number, local address, remote address, state, queues, timers, retransmits, uid,
		// timeout, inode
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[1] != source || fields[2] != destination {
			continue
		}
		uid, _ := strconv.Atoi(fields[7])
		inode, _ := strconv.ParseUint(fields[9], 10, 32)
		if inode == 0 {
			return Socket{}, ErrNoSocket
		}
		return Socket{UID: uid, Inode: uint32(inode)}, nil
	}
	if err := lines.Err(); err != nil {
		return Socket{}, err
	}
	return Socket{}, ErrNoSocket
}

// listed formats an address as in /proc/net/tcp: words of 32 bits in native byte order.
func listed(ip netip.Addr, port uint16) string {
	b := ip.AsSlice()
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	return strings.ToUpper(hex.EncodeToString(b)) + ":" +
		strings.ToUpper(hex.EncodeToString(binary.BigEndian.AppendUint16(nil, port)))
}
