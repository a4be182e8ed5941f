package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Narrow makes a folder of the tree its root, and drops all else.
func (t *Tree) Narrow(dir string) error {
	rel, err := clean(dir)
	if err != nil || rel == "." {
		return err
	}
	inner := filepath.Join(t.dir, filepath.FromSlash(rel))
	if info, err := os.Lstat(inner); err != nil || !info.IsDir() {
		return fmt.Errorf("%q is no folder of it", dir)
	}
	aside := t.dir + "-narrowed"
	if err := os.Rename(inner, aside); err != nil {
		return err
	}
	if err := removeAll(t.dir); err != nil {
		return err
	}
	names, kinds := map[string]string{}, map[string]bool{}
	for key, name := range t.names {
		if rest, below := strings.CutPrefix(name, rel+"/"); below {
			names[fold(rest)], kinds[fold(rest)] = rest, t.kinds[key]
		}
	}
	t.names, t.kinds = names, kinds
	return os.Rename(aside, t.dir)
}
