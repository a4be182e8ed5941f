package daemon

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestHangingHost: Machine finds a host that no longer takes connections, by its lock file.
func TestHangingHost(t *testing.T) {
	processtest.Leaks(t)
	d := claim(t, shortDir(t), "")
	raw, err := d.socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Listen(int(fd), 0) }); errors.Join(err, failed) != nil {
		t.Fatal(err, failed)
	}
	conn, err := d.Info().Dial(deadline(t)) // fills the accept queue
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, _ := Machine(deadline(t))
	if !slices.ContainsFunc(all, func(i Info) bool {
		return i.Socket == d.Info().Socket && i.Seen == os.Getpid() && i.UID == os.Geteuid() && i.Dir != ""
	}) {
		t.Errorf("it is not among %+v", all)
	}
}
