package peer

import (
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// After an error there is nothing to close, and no other descriptor is closed.
func TestUnixOfAClosedConnection(t *testing.T) {
	var before, after unix.Stat_t
	if err := unix.Fstat(0, &before); err != nil {
		t.Skip("the test has no stdin")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	p, err := Unix(c)
	p.Close()
	if err == nil {
		t.Error("a closed connection has a peer")
	}
	if err := unix.Fstat(0, &after); err != nil || after.Ino != before.Ino {
		t.Errorf("stdin is no longer what it was: %v", err)
	}
}
