package peer

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// TCP returns the other end of the connection between local and remote, given as this end sees them. It asks the kernel
// for that one socket (sock_diag), which does not slow down with the number of connections, and falls back to
// /proc/net. The error is [ErrNoSocket] if the process at the other end has closed the socket.
func TCP(local, remote netip.AddrPort) (Socket, error) {
	s, err := ask(remote, local)
	switch {
	case err == nil:
		answers.Store(true)
	case !errors.Is(err, ErrNoSocket) || !answers.Load():
		return search(remote, local)
	}
	return s, err
}

// answers is set once sock_diag has found a socket. A kernel without it reports every socket as missing.
var answers atomic.Bool

// Layouts of linux/inet_diag.h and linux/sock_diag.h.
const (
	sockDiagByFamily = 20
	headerSize       = unix.SizeofNlMsghdr
	requestSize      = 56 // struct inet_diag_req_v2
	answerSize       = 72 // struct inet_diag_msg
	answerUID        = 64
	answerInode      = 68
)

// answerLimit bounds the wait for the kernel, which normally answers at once.
const answerLimit = time.Second

// ask asks the kernel for the socket from source to destination.
func ask(source, destination netip.AddrPort) (s Socket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return s, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(int64(answerLimit))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return s, os.NewSyscallError("setsockopt", err)
	}
	err = unix.Sendto(fd, question(source, destination), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err != nil {
		return s, os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	for errors.Is(err, unix.EINTR) {
		n, _, err = unix.Recvfrom(fd, answer, 0)
	}
	if err != nil {
		return s, os.NewSyscallError("recvfrom", err)
	}
	return parse(answer[:n])
}

// question encodes the request for one socket.
func question(source, destination netip.AddrPort) []byte {
	b := make([]byte, headerSize+requestSize)
	order := binary.NativeEndian
	order.PutUint32(b, uint32(len(b)))
	order.PutUint16(b[4:], sockDiagByFamily)
	order.PutUint16(b[6:], unix.NLM_F_REQUEST)
	request := b[headerSize:]
	request[0], request[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if source.Addr().Unmap().Is4() {
		request[0] = unix.AF_INET
	}
	order.PutUint32(request[4:], 1<<32-1) // sockets in every state
	binary.BigEndian.PutUint16(request[8:], source.Port())
	binary.BigEndian.PutUint16(request[10:], destination.Port())
	copy(request[12:28], source.Addr().Unmap().AsSlice())
	copy(request[28:44], destination.Addr().Unmap().AsSlice())
	order.PutUint64(request[48:], 1<<64-1) // any cookie
	return b
}

// parse decodes the answer.
func parse(b []byte) (s Socket, err error) {
	order := binary.NativeEndian
	switch {
	case len(b) < headerSize+4:
		return s, errors.New("sock_diag: a short answer")
	case order.Uint16(b[4:]) == unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(order.Uint32(b[headerSize:])))
		if errno == unix.ENOENT {
			return s, ErrNoSocket
		}
		return s, os.NewSyscallError("sock_diag", errno)
	case len(b) < headerSize+answerSize:
		return s, errors.New("sock_diag: a short answer")
	}
	answer := b[headerSize:]
	s = Socket{UID: int(order.Uint32(answer[answerUID:])), Inode: order.Uint32(answer[answerInode:])}
	if s.Inode == 0 {
		return Socket{}, ErrNoSocket // already orphaned: its owner is unknown
	}
	return s, nil
}
