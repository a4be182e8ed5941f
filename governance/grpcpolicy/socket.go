package grpcpolicy

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// maxPath is below what any system has room for in the address of a unix socket
// (104 bytes on macOS).
const maxPath = 100

// The pauses between attempts to reach a socket that is not there yet.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// socket is where a plugin is to listen: a path in a directory of its own, which
// only this user may enter.
type socket struct {
	dir, path string
	reached   atomic.Pointer[net.Conn] // the first connection, until it is used
}

// newSocket makes the directory where the path is short enough.
func newSocket() (*socket, error) {
	var err error
	for _, root := range []string{os.TempDir(), "/tmp"} {
		var dir string
		if dir, err = os.MkdirTemp(root, "exthost-"); err != nil { // 0700
			continue
		}
		if path := filepath.Join(dir, "s"); len(path) < maxPath {
			return &socket{dir: dir, path: path}, nil
		}
		err = fmt.Errorf("the path of a socket in %s would be longer than %d bytes; set TMPDIR to a shorter one", root, maxPath)
		os.Remove(dir)
	}
	return nil, err
}

func (s *socket) remove() {
	if c := s.reached.Swap(nil); c != nil {
		(*c).Close()
	}
	os.RemoveAll(s.dir)
}

// await connects as soon as the plugin listens. Its error is that of the last
// attempt, when ctx has ended.
func (s *socket) await(ctx context.Context) error {
	var d net.Dialer
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		c, err := d.DialContext(ctx, "unix", s.path)
		if err == nil {
			s.reached.Store(&c)
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// dial is gRPC's dialer: the connection that is there, or another one.
func (s *socket) dial(ctx context.Context, _ string) (net.Conn, error) {
	if c := s.reached.Swap(nil); c != nil {
		return *c, nil
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.path)
}
