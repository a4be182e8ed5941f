//go:build unix

package file

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner and group of old, or at least the group, so that root can edit a user's file.
func keepOwner(f *os.File, old fs.FileInfo) {
	if s, ok := old.Sys().(*syscall.Stat_t); ok && f.Chown(int(s.Uid), int(s.Gid)) != nil {
		_ = f.Chown(-1, int(s.Gid))
	}
}
