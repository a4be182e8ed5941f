package peer

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// pair returns both ends of a connection over a listener at address.
func pair(t testing.TB, network, listen, dial string) (server, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen(network, listen)
	if err != nil {
		t.Skipf("%s %s: %v", network, listen, err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := net.Dial("tcp", net.JoinHostPort(dial, port))
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	return s.(*net.TCPConn), c.(*net.TCPConn)
}

func ends(c *net.TCPConn) (local, remote netip.AddrPort) {
	return c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
}

func inodeOf(t *testing.T, c *net.TCPConn) uint32 {
	t.Helper()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return uint32(stat.Ino)
}

// Both the kernel and /proc/net identify the other end: over IPv4, IPv6, and IPv4 on an IPv6 socket. A closed end is
// not found.
func TestTCP(t *testing.T) {
	for name, tt := range map[string]struct{ network, listen, dial string }{
		"IPv4":             {"tcp4", "127.0.0.1:0", "127.0.0.1"},
		"IPv6":             {"tcp6", "[::1]:0", "::1"},
		"IPv4 within IPv6": {"tcp", "[::]:0", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := pair(t, tt.network, tt.listen, tt.dial)
			local, remote := ends(server)
			want := Socket{UID: os.Geteuid(), Inode: inodeOf(t, client)}
			if got, err := ask(remote, local); err != nil || got != want {
				t.Errorf("ask: %+v, %v; want %+v", got, err, want)
			}
			if got, err := search(remote, local); err != nil || got != want {
				t.Errorf("search: %+v, %v; want %+v", got, err, want)
			}
			// In the other direction, the other end is an IPv6 socket.
			want.Inode = inodeOf(t, server)
			if got, err := TCP(remote, local); err != nil || got != want {
				t.Errorf("the server, as the client sees it: %+v, %v; want %+v", got, err, want)
			}
			if got, err := search(local, remote); err != nil || got != want {
				t.Errorf("the server in the list: %+v, %v; want %+v", got, err, want)
			}
			client.Close()
			for way, find := range map[string]func(source, destination netip.AddrPort) (Socket, error){
				"ask":    ask,
				"search": search,
			} {
				if got, err := find(remote, local); !errors.Is(err, ErrNoSocket) {
					t.Errorf("%s after the end: %+v, %v", way, got, err)
				}
			}
		})
	}
}

// BenchmarkTCP finds one connection among 10,000 sockets.
func BenchmarkTCP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var server *net.TCPConn
	for range 5000 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		s, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		server = s.(*net.TCPConn)
	}
	local, remote := ends(server)
	for name, find := range map[string]func(source, destination netip.AddrPort) (Socket, error){
		"ask":    ask,
		"search": search,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := find(remote, local); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
