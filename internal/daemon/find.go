package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
)

// ErrNotRunning says that no host answers for a state directory.
var ErrNotRunning = errors.New("no exthost is running")

// Find looks for the host that runs with a state directory and answers on its
// socket. The error is [ErrNotRunning] when there is none: never started, ended,
// or killed; then what it left behind stays for the next one to remove.
func Find(ctx context.Context, stateDir string) (Info, error) {
	f, err := os.Open(filepath.Join(stateDir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return Info{}, ErrNotRunning
	}
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	info, err := readInfo(f)
	if err != nil || info.Socket == "" {
		return info, ErrNotRunning // it is still starting, or has ended
	}
	conn, err := info.Dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return info, err
		}
		return info, ErrNotRunning
	}
	return info, conn.Close()
}

// Dial connects to the socket.
func (i Info) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", i.Socket)
}
