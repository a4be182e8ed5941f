package consent

import (
	"io/fs"
	"syscall"
)

// identity returns what the file system says of a version of a file.
func identity(info fs.FileInfo) File {
	f := File{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Inode, f.Change = s.Ino, s.Ctim.Nano()
	}
	return f
}
