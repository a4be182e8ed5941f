package store

import (
	"io/fs"
	"syscall"
)

// versionOf returns what the file system says of a version of a file.
func versionOf(info fs.FileInfo) version {
	v := version{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		v.Inode, v.Change = s.Ino, s.Ctim.Nano()
	}
	return v
}
