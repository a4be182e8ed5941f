package lineage

import (
	"net"
	"os/exec"
	"testing"

	"github.com/exthost/exthost/internal/proc/peer"
)

// BenchmarkOfSocket measures one decision about a connection: a look at all processes of the machine.
func BenchmarkOfSocket(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	socket, err := peer.TCP(l.Addr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort())
	if err != nil {
		b.Fatal(err)
	}
	for _, more := range []int{0, 200} {
		for range more {
			cmd := exec.Command("cat")
			in, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() { in.Close(); _ = cmd.Wait() }()
		}
		b.Run(map[bool]string{false: "idle", true: "200-more"}[more > 0], func(b *testing.B) {
			for b.Loop() {
				if OfSocket(socket.Inode, socket.UID) != Unrelated {
					b.Fatal("related")
				}
			}
		})
	}
}
