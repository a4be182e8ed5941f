package file

import (
	"io/fs"
	"time"
)

// Version identifies a version of a file: as long as it stays the same, so does the content; see Change.
type Version struct {
	Size   int64  `json:"size,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Mtime  int64  `json:"mtime_ns,omitempty"`
	Change int64  `json:"ctime_ns,omitempty"` // no program can set it; 0: unknown, never the same
}

// settled is how old a change must be to have a different time than any later one: file systems record times in steps.
const settled = 100 * time.Millisecond

// VersionOf returns the version of a file. It has only the size if the time of the last change is unknown or too
// recent.
func VersionOf(info fs.FileInfo) Version {
	v := UnsettledVersionOf(info)
	if v.Change == 0 || time.Since(time.Unix(0, v.Change)) < settled {
		return Version{Size: v.Size}
	}
	return v
}

// UnsettledVersionOf is like [VersionOf], but accepts recent changes: a later one may have the same version.
func UnsettledVersionOf(info fs.FileInfo) Version {
	inode, change := identity(info)
	return Version{info.Size(), inode, info.ModTime().UnixNano(), change}
}

// Is reports whether a file with version now is unchanged since v. It is false if that is unknown.
func (v Version) Is(now Version) bool { return v.Change != 0 && v == now }
