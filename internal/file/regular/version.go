package regular

import (
	"io/fs"
	"time"
)

// Version is what the file system says of one version of a file. While it says the same, the content is the
// same; see Change.
type Version struct {
	Size   int64  `json:"size,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Mtime  int64  `json:"mtime_ns,omitempty"`
	Change int64  `json:"ctime_ns,omitempty"` // which no program can set; 0: it tells this version from no other
}

// settled is how old a change must be for its time to tell it from a later one: file systems note times in
// steps.
const settled = 100 * time.Millisecond

// VersionOf returns the version of a file as info has it. It has the size alone where the file system does not
// tell the time of the last change, and where that is too recent.
func VersionOf(info fs.FileInfo) Version {
	v := Seen(info)
	if v.Change == 0 || time.Since(time.Unix(0, v.Change)) < settled {
		return Version{Size: v.Size}
	}
	return v
}

// Seen is [VersionOf] however recent the change is: a later one may have the same version.
func Seen(info fs.FileInfo) Version {
	inode, change := identity(info)
	return Version{info.Size(), inode, info.ModTime().UnixNano(), change}
}

// Is reports whether a file still has version v. It is false where nothing tells.
func (v Version) Is(now Version) bool { return v.Change != 0 && v == now }
