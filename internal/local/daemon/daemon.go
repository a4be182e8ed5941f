// Package daemon connects the operator's commands and clients on stdio to running hosts, through locks in the
// state directory and unix sockets that only the user can open.
//
// A lock file is in the state directory and contains the host's pid and the paths of its sockets, so that
// commands find the host even if their environment has another runtime directory. A state directory has several
// locks, one for each place: hosts for clients with different environments run side by side. Commands reach the
// host with the lowest place.
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

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/proc/peer"
)

// Info is the content of a lock file: data about the running host.
type Info struct {
	PID    int       `json:"pid"`
	Began  time.Time `json:"began,omitzero"`
	Socket string    `json:"socket,omitempty"` // path; "" before the socket is open
	Serves string    `json:"serves,omitempty"` // URL for MCP clients; "stdio" for one client on stdin
	Scope  string    `json:"scope,omitempty"`  // the host's configuration, for comparison

	Clients string `json:"clients,omitempty"` // path of the socket for relayed clients; "": the host accepts none
	Log     string `json:"log,omitempty"`     // log file of a host in the background; "" for other hosts
	// file with a copy of the log, see log.file of the configuration; "" for none
	LogCopy string `json:"log_copy,omitempty"`

	Command string      `json:"command,omitempty"` // that started the host, quoted for a shell, without secrets
	Guarded bool        `json:"guarded,omitempty"` // a guardian kills the host's processes if the host is killed
	Marks   sweep.Marks `json:"marks,omitzero"`    // of the host's processes; zero on systems without marks

	Dir  string `json:"dir,omitempty"` // working directory
	Lock string `json:"-"`             // path of the lock file; set by Find and Machine
	Seen int    `json:"-"`             // pid as seen by this process, 0 if invisible; set by Find and Machine
	UID  int    `json:"-"`             // user of the host; set by Find and Machine
}

// Stopped reports whether the host's process is stopped by SIGSTOP or Ctrl-Z and so answers nobody. It is false
// if that cannot be determined. The Info must come from Find or Machine.
func (i Info) Stopped() bool { return i.Seen > 0 && peer.Stopped(i.Seen) }

// RunningError is returned by Claim when another host holds the lock.
type RunningError struct { // the other host; PID is zero if it has just started
	Info Info // of the other host; PID is zero if it has just started
}

func (e *RunningError) Error() string {
	if e.Info.PID == 0 {
		return "another host has just started with the same state directory"
	}
	return fmt.Sprintf("another host runs with the same state directory: pid %d", e.Info.PID)
}

const (
	// maxPlaces limits the hosts that run with one state directory.
	maxPlaces = 16
	// maxPath is the longest path of a unix socket on all systems: 104 bytes including NUL on macOS, 108 on
	// Linux.
	maxPath = 103
)

// place is the number of a host in a state directory, from 0. The names of its lock and log start with a dot, unlike
// extension ids, so these files do not collide with the extensions' directories.
type place int

// file returns a file name for the place, such as ".exthost.lock" for the first and ".exthost-2.lock" for the second.
func (p place) file(name, ext string) string {
	if p == 0 {
		return name + ext
	}
	return fmt.Sprintf("%s-%d%s", name, p+1, ext)
}

func (p place) lock() string    { return p.file(".exthost", ".lock") }
func (p place) control() string { return p.file("control", ".sock") }
func (p place) clients() string { return p.file("clients", ".sock") } // of the same length as control, to fit maxPath

// Daemon is a held lock and an open socket.
type Daemon struct {
	lock    *os.File
	place   place
	info    Info
	before  Info
	socket  *net.UnixListener
	clients *net.UnixListener // nil before ListenClients
	seats   seats             // of the control socket
	dir     string            // directory created for the sockets, removed by Close; "" for none
}

// Claim takes the lock of a state directory, which it creates, and opens the control socket. The socket is below
// runtimeDir ($XDG_RUNTIME_DIR), or in the state directory, or, if those paths are too long, in a temporary
// directory. The directory of the socket has mode 0700, the socket 0600. Claim removes the socket of a killed
// host. The error is a *RunningError if another host holds the lock, and wraps errors.ErrUnsupported on systems
// without such locks.
func Claim(stateDir, runtimeDir string, info Info) (*Daemon, error) {
	return claimPlace(stateDir, runtimeDir, 0, info)
}

// ClaimNext is [Claim] for the first free place. The error is a *RunningError if all are taken.
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
		if path != "" && removeSocket(path) == nil { // left by a killed host
			_ = os.Remove(filepath.Dir(path)) // fails if the directory is not empty
		}
	}
	d.info = info
	d.info.Dir, _ = os.Getwd()
	d.info.PID, d.info.Began, d.info.Socket, d.info.Clients = os.Getpid(), time.Now().Truncate(time.Second), "", ""
	d.info.Marks = sweep.OwnMarks()
	if err = d.write(); err == nil {
		err = d.listen(stateDir, runtimeDir)
	}
	if err == nil {
		err = d.write()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// listen opens the socket in the first directory where that succeeds.
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

// listenAt opens a socket and creates its directory.
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

// ListenClients opens the socket for relayed clients beside the control socket, and records its path in the lock
// file. Like the listener of the control socket, this listener checks users; see [Daemon.Listener].
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
	return d.Yield(newListener(l, log, new(seats))), nil
}

// LockFile returns the path of the lock file, absolute if that of the state directory is.
func (d *Daemon) LockFile() string { return d.lock.Name() }

// LogFile returns the log file for a background host in this place.
func (d *Daemon) LogFile() string {
	return filepath.Join(filepath.Dir(d.lock.Name()), d.place.file(".exthost", ".log"))
}

// LogFile returns the log file of the background host that has the first place in a state directory.
func LogFile(stateDir string) string {
	return filepath.Join(stateDir, place(0).file(".exthost", ".log"))
}

// SetLog records the log file in the lock file.
func (d *Daemon) SetLog(path string) error {
	d.info.Log = path
	return d.write()
}

// ensurePrivate creates a directory with mode 0700, or sets that mode if the user owns the directory.
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

// removeSocket removes path if it is a socket. The caller holds the lock, so no host listens on it.
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

// write writes info to the lock file. Readers always find a valid JSON value at its start: a longer old text
// follows the new one until it is truncated.
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

// maxInfo limits how much of a lock file is read, in bytes.
const maxInfo = 1 << 20

// readInfo reads a lock file. The error is [io.EOF] for an empty file. It retries invalid text, because a host
// may be writing it.
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

// Before returns the lock file's previous content: the Info of a host that was killed or lost power. PID is zero
// if the previous host exited normally.
func (d *Daemon) Before() Info { return d.before }

// Info returns the content of the lock file.
func (d *Daemon) Info() Info { return d.info }

// Close closes and removes the sockets and releases the lock. It is idempotent.
func (d *Daemon) Close() error {
	if d.lock == nil {
		return nil
	}
	var errs []error
	for _, l := range []*net.UnixListener{d.clients, d.socket} {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // a server may have closed it already
			errs = append(errs, err)
		}
	}
	if d.dir != "" {
		_ = os.Remove(d.dir) // fails if the directory is not empty
	}
	// the lock file stays: if it were removed, two hosts could hold a lock
	errs = append(errs, d.lock.Truncate(0), d.lock.Close())
	d.lock = nil
	return errors.Join(errs...)
}
