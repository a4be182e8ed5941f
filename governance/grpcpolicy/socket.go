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

// maxPath is below the limit of a unix socket's address on every system (104 bytes on
// macOS).
const maxPath = 100

// The pauses between attempts to connect to a socket that does not exist yet.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// socket is the address at which a plugin listens, in a directory that only this user may
// enter.
type socket struct {
	dir, path string
	first     atomic.Pointer[net.Conn] // the connection of waitListening, until dial uses it
}

// newSocket creates the directory of the socket under the first root that keeps the path of the socket within the limit
// of the system.
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
		err = fmt.Errorf("the path of a socket in %s would be longer than %d bytes; set TMPDIR to a shorter one", root,
			maxPath)
		os.Remove(dir)
	}
	return nil, err
}

func (s *socket) remove() {
	if c := s.first.Swap(nil); c != nil {
		(*c).Close()
	}
	os.RemoveAll(s.dir)
}

// waitListening connects as soon as the plugin listens. When ctx ends it returns the error
// of the last attempt.
func (s *socket) waitListening(ctx context.Context) error {
	var d net.Dialer
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		c, err := d.DialContext(ctx, "unix", s.path)
		if err == nil {
			s.first.Store(&c)
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// dial is the dialer for gRPC. Its first call returns the connection of waitListening.
func (s *socket) dial(ctx context.Context, _ string) (net.Conn, error) {
	if c := s.first.Swap(nil); c != nil {
		return *c, nil
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.path)
}
