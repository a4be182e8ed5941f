// Package daemon connects the operator's commands and the clients on stdio to running
// hosts: locks in the state directory, and unix sockets that only the user can open.
//
// A lock file is in the state directory and contains the pid of the host and the paths
// of its sockets. So commands find the host even if their environment has another runtime
// directory. A directory has several locks, one for each place: the hosts of clients whose
// environments differ run side by side, and the first place is that of the host which
// commands reach.
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
	"slices"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/proc/peer"
)

// Info is the content of the lock file: data about the running host.
type Info struct {
	PID    int       `json:"pid"`
	Began  time.Time `json:"began,omitzero"`
	Socket string    `json:"socket,omitempty"` // path; "" before the socket is open
	Serves string    `json:"serves,omitempty"` // the URL for MCP clients; "stdio" for one client on stdin
	Scope  string    `json:"scope,omitempty"`  // the configuration that the host runs, for comparison

	Clients string `json:"clients,omitempty"` // path of the socket for relayed clients; "": the host takes none
	Log     string `json:"log,omitempty"`     // file with the log of a host in the background; "": of another host
	// file with a copy of the log, see log.file of the configuration; "": there is none
	LogCopy string `json:"log_copy,omitempty"`

	Guarded bool        `json:"guarded,omitempty"` // a guardian ends the processes of the host when it is killed
	Marks   sweep.Marks `json:"marks,omitzero"`    // of the processes of the host; none where the system has no marks

	Dir  string `json:"dir,omitempty"` // the working directory of the host
	Lock string `json:"-"`             // path of the lock file of a host that was found
	Seen int    `json:"-"`             // pid of a host that was found, as this process sees it; 0: it cannot be seen
	UID  int    `json:"-"`             // the user of a host that was found
}

// Stopped reports whether the process of a host that was found is stopped, by SIGSTOP or by Ctrl-Z: it
// answers nobody. It is false where that cannot be seen.
func (i Info) Stopped() bool { return i.Seen > 0 && peer.Stopped(i.Seen) }

// RunningError is the error of Claim when another host holds the lock.
type RunningError struct {
	Info Info // of the other host; PID is zero if it has just started
}

func (e *RunningError) Error() string {
	if e.Info.PID == 0 {
		return "another host has just started with the same state directory"
	}
	return fmt.Sprintf("another host runs with the same state directory: pid %d", e.Info.PID)
}

const (
	// maxPlaces is the number of hosts that run for one state directory at a time.
	maxPlaces = 16
	// maxPath is the longest path of a unix socket on all systems: 104 bytes with the
	// NUL on macOS, 108 on Linux.
	maxPath = 103
)

// place is the number of one of the hosts of a state directory. Ids of extensions do not
// begin with a dot, so the names of the files do not collide with their directories.
type place int

// file is ".exthost.lock" for the first place, ".exthost-2.lock" for the second.
func (p place) file(name, ext string) string {
	if p == 0 {
		return name + ext
	}
	return fmt.Sprintf("%s-%d%s", name, p+1, ext)
}

func (p place) lock() string    { return p.file(".exthost", ".lock") }
func (p place) control() string { return p.file("control", ".sock") }
func (p place) clients() string { return p.file("clients", ".sock") } // as long as control

// Daemon is a held lock and an open socket.
type Daemon struct {
	lock    *os.File
	place   place
	info    Info
	before  Info
	socket  *net.UnixListener
	clients *net.UnixListener // nil before ListenClients
	dir     string            // directory made for the sockets only, removed by Close; "" if there is none
}

// Claim takes the lock of a state directory and opens the socket. It creates the state
// directory. The socket is below runtimeDir ($XDG_RUNTIME_DIR), else in the state
// directory, else in a temporary directory if those paths are too long. The directory of
// the socket has mode 0700, the socket 0600. Claim removes the socket of a host that was
// killed. The error is a *RunningError if another host holds the lock, and wraps
// errors.ErrUnsupported on systems without such locks.
func Claim(stateDir, runtimeDir string, info Info) (*Daemon, error) {
	return claimPlace(stateDir, runtimeDir, 0, info)
}

// ClaimNext is [Claim] of the first place that no other host has. The error is a
// *RunningError if all are taken.
func ClaimNext(stateDir, runtimeDir string, info Info) (*Daemon, error) {
	for p := place(0); ; p++ {
		d, err := claimPlace(stateDir, runtimeDir, p, info)
		if _, running := errors.AsType[*RunningError](err); !running || p == maxPlaces-1 {
			return d, err
		}
	}
}

func claimPlace(stateDir, runtimeDir string, p place, info Info) (*Daemon, error) {
	if err := ensurePrivate(stateDir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(stateDir, p.lock()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	d := &Daemon{lock: lock, place: p}
	err = tryLock(lock)
	d.before, _ = readInfo(lock)
	if err != nil {
		lock.Close()
		if errors.Is(err, errLocked) {
			return nil, &RunningError{d.before}
		}
		return nil, err
	}
	for _, path := range []string{d.before.Clients, d.before.Socket} {
		if path != "" && removeSocket(path) == nil { // of a host that was killed
			_ = os.Remove(filepath.Dir(path)) // fails if the directory is not empty
		}
	}
	d.info = info
	d.info.Dir, _ = os.Getwd()
	d.info.PID, d.info.Began, d.info.Socket, d.info.Clients = os.Getpid(), time.Now().Truncate(time.Second), "", ""
	d.info.Marks = sweep.OwnMarks()
	if err := errors.Join(d.write(), d.listen(stateDir, runtimeDir), d.write()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// listen opens the socket in the first directory that works.
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
	path := filepath.Join(dir, d.place.control())
	l, err := listenAt(path)
	if err != nil {
		return err
	}
	d.socket, d.info.Socket = l, path
	return nil
}

// listenAt opens a socket. It creates the directory of the socket.
func listenAt(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s: too long for the address of a socket", path)
	}
	if err := ensurePrivate(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ListenClients opens the socket for relayed clients beside the other one, and writes its
// path into the lock file. The listener is as that of [Daemon.Listener].
func (d *Daemon) ListenClients(log *slog.Logger) (net.Listener, error) {
	path := filepath.Join(filepath.Dir(d.info.Socket), d.place.clients())
	l, err := listenAt(path)
	if err != nil {
		return nil, err
	}
	d.clients, d.info.Clients = l, path
	if err := d.write(); err != nil {
		return nil, err
	}
	return &userListener{UnixListener: l, users: []int{os.Geteuid(), 0}, log: log}, nil
}

// LogFile is the file for the log of a host in the background in this place.
func (d *Daemon) LogFile() string {
	return filepath.Join(filepath.Dir(d.lock.Name()), d.place.file(".exthost", ".log"))
}

// LogFile is the file of the latest log of a host that ran in the background for a state
// directory, in the first place.
func LogFile(stateDir string) string {
	return filepath.Join(stateDir, place(0).file(".exthost", ".log"))
}

// SetLog records the file with the host's log in the lock file.
func (d *Daemon) SetLog(path string) error {
	d.info.Log = path
	return d.write()
}

// ensurePrivate creates a directory with mode 0700, or sets that mode if the user owns it.
func ensurePrivate(dir string) error {
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

// removeSocket removes a socket, and no other file. The caller holds the lock, so no host
// listens on the socket.
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

// write writes info to the lock file. The file is valid at every moment: the rest of a
// longer text follows the new one until it is cut off.
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

// maxInfo bounds the part of a lock file that is read.
const maxInfo = 1 << 20

// readInfo reads a lock file; the error is [io.EOF] if the file is empty. It tries again
// when the text is invalid, because a host may be writing it.
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

// Serves records the URL for MCP clients in the lock file.
func (d *Daemon) Serves(url string) error {
	d.info.Serves = url
	return d.write()
}

// SetGuarded records in the lock file that a guardian ends the processes of the host.
func (d *Daemon) SetGuarded() error {
	d.info.Guarded = true
	return d.write()
}

// Before returns what the lock file contained before: the Info of a host that was killed or
// lost its power. The PID is zero when the host before has ended by itself.
func (d *Daemon) Before() Info { return d.before }

// Info returns the content of the lock file.
func (d *Daemon) Info() Info { return d.info }

// Listener returns the listener of the socket. It closes the connections of users other than root and this
// one, and logs them at Warn. Closing the listener removes the socket.
func (d *Daemon) Listener(log *slog.Logger) net.Listener {
	return &userListener{UnixListener: d.socket, users: []int{os.Geteuid(), 0}, log: log}
}

// Close closes and removes the socket and releases the lock. It is idempotent.
func (d *Daemon) Close() error {
	if d.lock == nil {
		return nil
	}
	var errs []error
	for _, l := range []*net.UnixListener{d.clients, d.socket} {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // a server has closed the listener already
			errs = append(errs, err)
		}
	}
	if d.dir != "" {
		_ = os.Remove(d.dir) // fails if the directory is not empty
	}
	// the file stays: after a removal two hosts could hold a lock
	errs = append(errs, d.lock.Truncate(0), d.lock.Close())
	d.lock = nil
	return errors.Join(errs...)
}

// userListener is a listener that accepts connections of a few users: that of the host, and root, which could
// become that user anyway.
type userListener struct {
	*net.UnixListener
	users []int // uids
	log   *slog.Logger
}

// Accept implements [net.Listener].
func (g *userListener) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		other, err := peer.Unix(conn)
		other.Close()
		if err == nil && slices.Contains(g.users, other.UID) {
			return conn, nil
		}
		g.log.Warn("another user was kept from the socket of the host", "uid", other.UID, "error", err)
		_ = conn.Close()
	}
}
