package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/exthost/exthost/internal/proc/peer"
)

// Machine returns the hosts on this machine that this user may connect to, whatever their state directories. Root
// may connect to the hosts of all users. others is the number of sockets of other users' hosts. Machine finds hosts
// only on Linux, and only in this process's network namespace.
func Machine(ctx context.Context) (all []Info, others int) {
	for _, path := range peer.Listening() {
		if !isControl(path) {
			continue
		}
		conn, owner, err := connect(ctx, path)
		switch {
		case err == nil:
			_ = conn.Close()
		case errors.Is(err, fs.ErrPermission), errors.Is(err, errOther):
			others++
			continue
		case errors.Is(err, syscall.EAGAIN): // the accept queue of a hanging host is full
			file, err := os.Lstat(path)
			if err != nil || !owned(file) { // the kernel names no process, and a lock file of others names any
				continue
			}
			if info, err := infoOf(path, 0); err == nil {
				info.Seen, info.UID = info.PID, os.Geteuid()
				all = append(all, info)
			}
			continue
		default: // the host has ended
			continue
		}
		info, err := infoOf(path, owner.PID)
		if err != nil {
			info = Info{PID: owner.PID, Socket: path}
		}
		info.Seen, info.UID = owner.PID, owner.UID
		if info.Dir == "" {
			info.Dir, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", owner.PID))
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b Info) int { return a.Began.Compare(b.Began) })
	return all, others
}

// isControl reports whether path is a control socket.
func isControl(path string) bool {
	for p := range place(maxPlaces) {
		if filepath.Base(path) == p.control() {
			return true
		}
	}
	return false
}

// infoOf reads the lock file of the host that listens on socket. It looks for the file beside the socket, and among
// the open files of the host's process, pid, as far as this user may see those.
func infoOf(socket string, pid int) (info Info, err error) {
	dirs := []string{filepath.Dir(socket)}
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && filepath.Ext(target) == ".lock" {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	for _, dir := range dirs {
		for p := range place(maxPlaces) {
			path := filepath.Join(dir, p.lock())
			f, err := os.Open(path)
			if err != nil {
				continue
			}
			info, err = readInfo(f)
			_ = f.Close()
			if info.Lock = path; err == nil && info.Socket == socket {
				return info, nil
			}
		}
	}
	return Info{}, fs.ErrNotExist
}
