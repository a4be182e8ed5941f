package agentplugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/manifest"
)

// Launch returns the transport of a server for one start of its process: placeholders replaced, and the program and the
// working directory where the package may have them. root and data are absolute and have no links; data exists. A
// missing working directory below data is made.
func Launch(t manifest.Transport, root, data string) (manifest.Transport, error) {
	if t.Kind != manifest.KindStdio {
		return t, nil
	}
	out := Expand(t, root, data)
	if path, own := strings.CutPrefix(t.Command, "./"); own {
		if _, err := within(root, filepath.Join(root, filepath.FromSlash(path))); errors.Is(err, errOutside) {
			return out, fmt.Errorf("command %s %w", t.Command, err)
		}
	}
	place, base := root, rootPlaceholder
	if found, _, ok := splitCwd(t.Cwd); ok && found == dataPlaceholder {
		place, base = data, dataPlaceholder
		if err := makeBelow(data, out.Cwd); err != nil {
			return out, fmt.Errorf("cwd %s: %s", t.Cwd, reason(err))
		}
	}
	real, err := within(place, out.Cwd)
	switch {
	case errors.Is(err, errOutside):
		return out, fmt.Errorf("cwd %s leads out of %s", t.Cwd, base)
	case errors.Is(err, fs.ErrNotExist):
		return out, fmt.Errorf("cwd %s does not exist", t.Cwd)
	case err != nil:
		return out, fmt.Errorf("cwd %s: %s", t.Cwd, reason(err))
	}
	out.Cwd = real
	return out, nil
}

// makeBelow makes the folder path below dir. It follows no link out of dir.
func makeBelow(dir, path string) error {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return errOutside
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Stat(rel); err == nil && info.IsDir() {
		return nil
	}
	return root.MkdirAll(rel, 0o700)
}
