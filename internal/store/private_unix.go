//go:build unix

package store

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private refuses what another user owns or can write.
func private(path string, info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() && s.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, who can change it; remove it", path, s.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s has mode %#o, so that others can write it; chmod go-w it", path, mode)
	}
	return nil
}
