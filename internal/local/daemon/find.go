package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/peer"
)

// ErrNotRunning is returned by Find if no host answers for a state directory.
var ErrNotRunning = errors.New("no host is running")

// Find returns the Info of a host that runs with a state directory and answers on its socket. Of several hosts it
// returns the one with the lowest place. The error is [ErrNotRunning] if there is none. The files of a killed host
// stay until the next Claim.
func Find(ctx context.Context, stateDir string) (Info, error) {
	all, err := find(ctx, stateDir, 1)
	if err != nil {
		return Info{}, err
	}
	if len(all) == 0 {
		return Info{}, ErrNotRunning
	}
	return all[0], nil
}

// FindAll returns all hosts that run with a state directory, possibly none.
func FindAll(ctx context.Context, stateDir string) ([]Info, error) {
	return find(ctx, stateDir, maxPlaces)
}

// find returns the hosts with the lowest places, ordered by place. It returns no more hosts than most.
func find(ctx context.Context, stateDir string, most int) (all []Info, err error) {
	for p := place(0); p < maxPlaces && len(all) < most; p++ {
		info, err := findAt(ctx, filepath.Join(stateDir, p.lock()))
		switch {
		case err == nil:
			all = append(all, info)
		case !errors.Is(err, ErrNotRunning):
			return all, err
		}
	}
	return all, nil
}

func findAt(ctx context.Context, lock string) (Info, error) {
	f, err := os.Open(lock)
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
	info.UID, info.Lock = os.Geteuid(), lock
	conn, owner, err := dial(ctx, info.Socket, info.UID)
	switch {
	case err == nil:
		info.Seen = owner.PID
		return info, conn.Close()
	case errors.Is(err, syscall.EAGAIN): // the accept queue of a hanging host is full
		info.Seen = info.PID
		return info, nil
	case ctx.Err() != nil, file.Exhausted(err): // neither tells whether a host answers
		return info, err
	}
	return info, ErrNotRunning
}

// lockPoll is how often Exclusive tries the lock.
const lockPoll = 10 * time.Millisecond

// Exclusive takes the start lock of a state directory, and creates the directory. Only the process that holds this
// lock may start a host. Exclusive waits for the lock until ctx ends. The lock is released when this process and all
// that inherited turn have closed turn.
func Exclusive(ctx context.Context, stateDir string) (turn *os.File, err error) {
	if err := ensurePrivate(stateDir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(stateDir, ".exthost.start"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := tryLock(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// Dial connects to the host's control socket.
func (i Info) Dial(ctx context.Context) (*net.UnixConn, error) {
	conn, _, err := dial(ctx, i.Socket, i.UID)
	return conn, err
}

// DialClients connects to the host's socket for relayed clients.
func (i Info) DialClients(ctx context.Context) (*net.UnixConn, error) {
	conn, _, err := dial(ctx, i.Clients, i.UID)
	return conn, err
}

// errOther is returned for a socket of another user.
var errOther = errors.New("the socket belongs to another user")

// dial connects to a socket of the user uid, and returns the listening process. The user is checked because a
// lock file may be left over from a killed host, and another user may meanwhile have created a socket at the same
// path in a temporary directory.
func dial(ctx context.Context, path string, uid int) (*net.UnixConn, peer.Process, error) {
	conn, owner, err := connect(ctx, path)
	if err == nil && owner.UID != uid {
		_ = conn.Close()
		return nil, owner, fmt.Errorf("%s: %w, uid %d", path, errOther, owner.UID)
	}
	return conn, owner, err
}

// connect connects to a socket of this user. Root may connect to sockets of any user.
func connect(ctx context.Context, path string) (*net.UnixConn, peer.Process, error) {
	var d net.Dialer
	dialed, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, peer.Process{}, err
	}
	conn := dialed.(*net.UnixConn)
	owner, err := peer.Unix(conn)
	owner.Close()
	if self := os.Geteuid(); err == nil && self != 0 && owner.UID != self {
		err = fmt.Errorf("%s: %w, uid %d", path, errOther, owner.UID)
	}
	if err != nil {
		_ = conn.Close()
		return nil, owner, err
	}
	return conn, owner, nil
}
