package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrTaken is the error of Open for a log that another process writes.
var ErrTaken = errors.New("the audit log is being written")

// taken says by whom.
type taken struct{ path, pid string }

func (t *taken) Error() string {
	return t.path + " is written by process " + t.pid + ": stop that one, or state another audit.path"
}

func (t *taken) Is(target error) bool { return target == ErrTaken }

// Sibling is the path of the n-th log beside the one at path, which is the first:
// audit-2.jsonl beside audit.jsonl. Hosts that share a configuration have one each.
func Sibling(path string, n int) string {
	if n < 2 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + strconv.Itoa(n) + ext
}

// Siblings are the logs that there are at path and beside it.
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
