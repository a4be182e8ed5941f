//go:build linux || darwin

package file

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// free returns how many bytes and inodes this user can still use on the file system of path. File systems that do not
// count them have enough.
func free(path string) (bytes, inodes uint64, err error) {
	var s unix.Statfs_t
	for {
		if err = unix.Statfs(path, &s); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	blocks := s.Bavail
	if os.Geteuid() == 0 { // root has the reserved blocks too
		blocks = s.Bfree
	}
	bytes, inodes = blocks*uint64(s.Bsize), s.Ffree
	if s.Blocks == 0 {
		bytes = math.MaxUint64
	}
	if s.Files == 0 {
		inodes = math.MaxUint64
	}
	return bytes, inodes, nil
}
