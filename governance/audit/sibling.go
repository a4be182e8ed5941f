package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrTaken is the error of Open for a log that another process has locked.
var ErrTaken = errors.New("the audit log is being written")

// lockHeld is ErrTaken with the process that holds the lock.
type lockHeld struct{ path, pid string }

func (t *lockHeld) Error() string {
	return t.path + " is written by process " + t.pid + ": stop that one, or state another audit.path"
}

func (t *lockHeld) Is(target error) bool { return target == ErrTaken }

// Sibling returns the path of the n-th log at path, where 1 is path itself: audit-2.jsonl beside
// audit.jsonl. Hosts that share a configuration each write a log of their own.
func Sibling(path string, n int) string {
	if n < 2 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + strconv.Itoa(n) + ext
}

// Siblings returns the existing logs of path and its siblings.
func Siblings(path string) (paths []string) {
	for n := 1; ; n++ {
		_, err := os.Lstat(Sibling(path, n))
		switch {
		case err == nil:
			paths = append(paths, Sibling(path, n))
		case n > 1:
			return paths
		}
	}
}
