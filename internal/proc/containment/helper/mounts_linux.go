package helper

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// restrictMounts makes the mounts of this namespace read-only, except at and below the files that rules make writable.
// Landlock does not control modes, owners, times and attributes: without this, a program with any write access could
// change them everywhere. On kernels before Linux 5.12 the mounts stay as they are.
func (s *Sandbox) restrictMounts() error {
	if s == nil || !s.Rules.Writes { // if nothing is writable, the system call filter refuses such changes
		return nil
	}
	var writable []int // mounts to make writable again
	defer func() {
		for _, fd := range writable {
			unix.Close(fd)
		}
	}()
	for _, r := range s.Rules.Files {
		if !r.Write {
			continue
		}
		fd, err := bind(r)
		if err != nil {
			return err
		}
		if fd >= 0 {
			writable = append(writable, fd)
		}
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		if errors.Is(err, unix.ENOSYS) {
			return nil
		}
		return err
	}
	for _, fd := range writable {
		writeAgain := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &writeAgain)
		if errors.Is(err, unix.EPERM) { // a mount below it must stay read-only for this user
			err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &writeAgain)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bind mounts the file or directory of a rule onto itself and returns the mount; -1 for a device or a missing file.
func bind(r confine.Rule) (mount int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if !r.Links {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	at, err := unix.Openat2(unix.AT_FDCWD, r.Path, &how)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, unix.ELOOP) {
		return -1, nil // no rule allows it either
	} else if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var info unix.Stat_t
	if err := unix.Fstat(at, &info); err != nil {
		return -1, err
	}
	// devices stay writable on read-only mounts
	if kind := info.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return -1, nil
	}
	mount, err = unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err := unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		unix.Close(mount)
		return -1, err
	}
	return mount, nil
}
