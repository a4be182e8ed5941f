//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// operand is an argument of a system call that is the path of a file.
type operand struct {
	dir, path int // argument numbers; dir < 0: the working directory
	use       use
	flags     int // argument number, for opens and opens2
}

// use is what a call does with a file.
type use int

const (
	opens    use = iota // reads or writes it, as the flags of the call say
	opens2              // like opens; flags is a struct open_how (openat2)
	changes             // writes it
	makes               // creates it if missing: mkdir -p tries every parent folder
	replaces            // creates, removes or renames it: writes its parent folder
)

// watched are the calls that Landlock judges by a path. execve is missing: the Go runtime is stopped during it, so no
// goroutine could answer.
var watched = func() map[uint32][]operand {
	calls := map[uint32][]operand{
		unix.SYS_OPENAT:    {{dir: 0, path: 1, use: opens, flags: 2}},
		unix.SYS_OPENAT2:   {{dir: 0, path: 1, use: opens2, flags: 2}},
		unix.SYS_TRUNCATE:  {{dir: -1, path: 0, use: changes}},
		unix.SYS_MKDIRAT:   {{dir: 0, path: 1, use: makes}},
		unix.SYS_MKNODAT:   {{dir: 0, path: 1, use: replaces}},
		unix.SYS_UNLINKAT:  {{dir: 0, path: 1, use: replaces}},
		unix.SYS_SYMLINKAT: {{dir: 1, path: 2, use: replaces}},
		unix.SYS_LINKAT:    {{dir: 0, path: 1, use: replaces}, {dir: 2, path: 3, use: replaces}},
		unix.SYS_RENAMEAT2: {{dir: 0, path: 1, use: replaces}, {dir: 2, path: 3, use: replaces}},
	}
	maps.Copy(calls, watchedHere)
	return calls
}()

// notification is struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         uint32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id, val uint64
	err     int32
	flags   uint32
}

// start makes the kernel report to w the watched calls of this thread and of the processes that it
// starts, before the kernel judges them by rules.
func (w *Watch) start(rules []confine.Rule) error {
	listener, err := confine.Notify(slices.Sorted(maps.Keys(watched)))
	if err != nil {
		return fmt.Errorf("watch its system calls (Linux 5.19): %w", err)
	}
	unix.CloseOnExec(listener)
	stopped, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(listener)
		return fmt.Errorf("watch its system calls: %w", err)
	}
	w.mu.Lock()
	w.stop = append(w.stop, func() { _, _ = unix.Write(stopped, []byte{1, 0, 0, 0, 0, 0, 0, 0}) })
	w.mu.Unlock()
	w.serving.Go(func() {
		defer unix.Close(stopped)
		defer unix.Close(listener)
		w.serve(listener, stopped, rules)
	})
	return nil
}

// serve answers notifications until all processes have ended or stopped is signalled.
func (w *Watch) serve(listener, stopped int, rules []confine.Rule) {
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}, {Fd: int32(stopped), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if ready[1].Revents != 0 || ready[0].Revents != 0 && ready[0].Revents&unix.POLLIN == 0 {
			return
		}
		if ready[0].Revents == 0 {
			continue
		}
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV,
			uintptr(unsafe.Pointer(&n)))
		if errno != 0 {
			continue // the process was killed meanwhile
		}
		for _, o := range watched[n.nr] {
			if a, ok := n.access(o); ok {
				w.note(a, rules)
			}
		}
		r := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND,
			uintptr(unsafe.Pointer(&r)))
	}
}

// access returns what the call does with o. ok is false if no sandbox controls it, or if it would fail without a
// sandbox too.
func (n *notification) access(o operand) (a Access, ok bool) {
	path, ok := n.path(o)
	if !ok {
		return a, false
	}
	flags := uint64(0)
	switch o.use {
	case opens:
		flags = n.args[o.flags]
	case opens2:
		if how, ok := n.memory(n.args[o.flags], 8); ok {
			flags = binary.NativeEndian.Uint64(how)
		}
	case changes:
		flags = unix.O_WRONLY
	case makes:
		if unix.Access(path, unix.F_OK) == nil {
			return a, false
		}
		return around(path)
	case replaces:
		return around(path)
	}
	return opened(path, flags)
}

// path returns the path of o as the process sees it, absolute; ok is false if it cannot be read.
func (n *notification) path(o operand) (path string, ok bool) {
	path, ok = n.text(n.args[o.path])
	if !ok || path == "" {
		return "", false
	}
	proc := fmt.Sprintf("/proc/%d", n.pid)
	if !filepath.IsAbs(path) {
		at := proc + "/cwd"
		if o.dir >= 0 && int32(n.args[o.dir]) != unix.AT_FDCWD {
			at = fmt.Sprintf("%s/fd/%d", proc, int32(n.args[o.dir]))
		}
		base, err := os.Readlink(at)
		if err != nil {
			return "", false
		}
		path = filepath.Join(base, path)
	}
	for _, self := range []string{"/proc/self", "/proc/thread-self"} {
		if within(path, self) {
			path = proc + strings.TrimPrefix(path, self)
		}
	}
	return path, true
}

// opened returns the access by opening path with flags.
func opened(path string, flags uint64) (a Access, ok bool) {
	a.Write = flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_TRUNC) != 0
	path = real(path)
	mode := uint32(unix.R_OK)
	if a.Write {
		mode = unix.W_OK
	}
	switch err := unix.Access(path, mode); {
	case flags&unix.O_PATH != 0:
		return a, false
	case errors.Is(err, unix.ENOENT) && flags&unix.O_CREAT != 0 && flags&unix.O_TMPFILE != unix.O_TMPFILE:
		return around(path)
	case err != nil:
		return a, false
	}
	a.Path = path
	return a, true
}

// around returns the access to the parent folder by creating, removing or renaming path.
func around(path string) (Access, bool) {
	dir := real(filepath.Dir(path))
	return Access{dir, true}, unix.Access(dir, unix.W_OK) == nil
}

// text returns the string at an address of the process.
func (n *notification) text(address uint64) (string, bool) {
	data, _ := n.memory(address, unix.PathMax)
	end := bytes.IndexByte(data, 0)
	if end < 0 {
		return "", false
	}
	return string(data[:end]), true
}

// memory returns up to size bytes at an address of the process; ok is false if there are fewer.
func (n *notification) memory(address uint64, size int) (data []byte, ok bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.pid))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	data = make([]byte, size)
	read, _ := f.ReadAt(data, int64(address))
	return data[:read], read == size
}
