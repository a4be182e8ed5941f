package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
)

// ErrNotRunning is the error of Find if no host answers for a state directory.
var ErrNotRunning = errors.New("no exthost is running")

// Find returns the Info of the host that runs with a state directory and answers on its
// socket. The error is [ErrNotRunning] if there is none. Find leaves the files of a killed
// host; the next Claim removes them.
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
		return info, ErrNotRunning // the host is starting or has ended
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
