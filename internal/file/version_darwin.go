package file

import (
	"io/fs"
	"syscall"
)

func identity(info fs.FileInfo) (inode uint64, change int64) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino, s.Ctimespec.Nano()
	}
	return 0, 0
}
