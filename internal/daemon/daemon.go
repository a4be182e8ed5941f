// Package daemon is where a running host and its operator meet: one lock for each
// state directory, and a unix socket that nobody but the user can reach.
//
// The lock file stays where the state is and says who holds it and where the
// socket is, so that the two find each other whatever their environments say
// about runtime directories.
package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Info is what a host says about itself to those who find its lock.
type Info struct {
	PID    int    `json:"pid"`
	Socket string `json:"socket,omitempty"` // path; "" before there is one
	Serves string `json:"serves,omitempty"` // the URL for MCP clients; "stdio" for one client on stdin
	Scope  string `json:"scope,omitempty"`  // what it was asked to run, for comparison
}

// RunningError says that a host holds the lock already.
type RunningError struct {
	Info Info // of the holder; zero PID when it has not said yet
}

func (e *RunningError) Error() string {
	if e.Info.PID == 0 {
		return "another exthost has just started with the same state directory"
	}
	return fmt.Sprintf("another exthost runs with the same state directory: pid %d", e.Info.PID)
}

const (
	lockName   = ".exthost.lock" // no extension's id begins with a dot
	socketName = "control.sock"
	// maxPath is what fits into an address of a unix socket everywhere: 104 bytes
	// with the NUL on macOS, 108 on Linux.
	maxPath = 103
)

// Daemon is a held lock and an open socket.
type Daemon struct {
	lock   *os.File
	info   Info
	socket *net.UnixListener
	dir    string // made for the socket alone, removed by Close; "" when there is none
}

// Claim takes the lock of a state directory, which it makes, and opens the socket:
// below runtimeDir ($XDG_RUNTIME_DIR), else in the state directory, else where
// there is room for its path. The directory of the socket has mode 0700, the
// socket 0600. What a host that died left behind is removed. The error is a
// *RunningError when another host holds the lock, and wraps errors.ErrUnsupported
// where the system has no such locks.
func Claim(stateDir, runtimeDir string, info Info) (*Daemon, error) {
	if err := private(stateDir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(stateDir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	d := &Daemon{lock: lock}
	err = tryLock(lock)
	before, _ := readInfo(lock)
	if err != nil {
		lock.Close()
		if errors.Is(err, errLocked) {
			return nil, &RunningError{before}
		}
		return nil, err
	}
	if path := before.Socket; path != "" && removeSocket(path) == nil { // of one that was killed
		_ = os.Remove(filepath.Dir(path)) // if it held nothing else
	}
	d.info = info
	d.info.PID, d.info.Socket = os.Getpid(), ""
	if err := errors.Join(d.write(), d.listen(stateDir, runtimeDir), d.write()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// listen opens the socket in the first place that will do.
func (d *Daemon) listen(stateDir, runtimeDir string) error {
	var failed error
	if filepath.IsAbs(runtimeDir) {
		d.dir = filepath.Join(runtimeDir, "exthost-"+filepath.Base(stateDir))
		if failed = d.listenIn(d.dir); failed == nil {
			return nil
		}
	}
	d.dir = ""
	err := d.listenIn(stateDir)
	if err == nil {
		return nil
	}
	failed = errors.Join(failed, err)
	if d.dir, err = os.MkdirTemp("", "exthost-"); err == nil { // mode 0700
		err = d.listenIn(d.dir)
	}
	if err == nil {
		return nil
	}
	return errors.Join(failed, err)
}

func (d *Daemon) listenIn(dir string) error {
	path := filepath.Join(dir, socketName)
	if len(path) > maxPath {
		return fmt.Errorf("%s: too long for the address of a socket", path)
	}
	if err := private(dir); err != nil {
		return err
	}
	if err := removeSocket(path); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	d.socket, d.info.Socket = l, path
	return nil
}

// private makes a directory that is the user's alone, or makes it so.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: it is not a directory", dir)
	case !owned(info):
		return fmt.Errorf("%s: it belongs to another user", dir)
	case info.Mode().Perm() != 0o700:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// removeSocket removes a socket and nothing else. Whoever calls it holds the lock,
// so nobody listens there.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: there is something that is no socket", path)
	}
	return os.Remove(path)
}

// write says in the lock file who holds it. The file says so at every moment: what is
// left of a longer text stands behind the new one.
func (d *Daemon) write() error {
	data, err := json.Marshal(d.info)
	if err != nil {
		return err
	}
	if _, err := d.lock.WriteAt(append(data, '\n'), 0); err != nil {
		return err
	}
	return d.lock.Truncate(int64(len(data)) + 1)
}

// maxInfo bounds what is read of a lock file.
const maxInfo = 1 << 20

// readInfo reads what a lock file says; the error is [io.EOF] when that is nothing. What
// is half one text and half the next, because it is just being written, is read again.
func readInfo(f *os.File) (info Info, err error) {
	for try := range 5 {
		time.Sleep(time.Duration(try) * 5 * time.Millisecond)
		info = Info{}
		err = json.NewDecoder(io.NewSectionReader(f, 0, maxInfo)).Decode(&info)
		if err == nil || errors.Is(err, io.EOF) {
			break
		}
	}
	return info, err
}

// Serves says where MCP clients find the host, once that is known.
func (d *Daemon) Serves(url string) error {
	d.info.Serves = url
	return d.write()
}

// Info returns what the daemon says about itself.
func (d *Daemon) Info() Info { return d.info }

// Listener returns the socket, which lets nobody but the user in. Who else
// connects is told nothing, and log at Warn. Closing it removes the socket.
func (d *Daemon) Listener(log *slog.Logger) net.Listener {
	return &guarded{UnixListener: d.socket, uid: os.Geteuid(), log: log}
}

// Close closes and removes the socket and gives the lock back. It is idempotent.
func (d *Daemon) Close() error {
	if d.lock == nil {
		return nil
	}
	var errs []error
	if d.socket != nil {
		if err := d.socket.Close(); !errors.Is(err, net.ErrClosed) { // as whoever served it left it
			errs = append(errs, err)
		}
	}
	if d.dir != "" {
		_ = os.Remove(d.dir) // unless it holds anything else
	}
	errs = append(errs, d.lock.Truncate(0), d.lock.Close()) // the file stays: to remove it is to let two hold it
	d.lock = nil
	return errors.Join(errs...)
}

// guarded is a listener that asks the system who connects.
type guarded struct {
	*net.UnixListener
	uid int
	log *slog.Logger
}

// Accept implements [net.Listener].
func (g *guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn, g.uid)
		if err == nil && uid == g.uid {
			return conn, nil
		}
		g.log.Warn("another user was kept from the control socket", "uid", uid, "error", err)
		_ = conn.Close()
	}
}
