//go:build unix

package consent

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private refuses a record that another user wrote, or may have written.
func private(path string, info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() && s.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d; remove it", path, s.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s has mode %#o, so that others can write it; remove it", path, mode)
	}
	return nil
}
