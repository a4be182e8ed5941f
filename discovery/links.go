package discovery

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// follow reports whether a link leads to a directory that is to be searched.
func (w *walk) follow(path string) bool {
	if !w.o.FollowLinks {
		for _, name := range []string{manifest.FileName, agentplugin.FileName} {
			if _, err := os.Stat(filepath.Join(path, name)); err == nil {
				w.diagnose(protocol.LevelWarn, CodeLinkSkipped, path,
					"there is an extension behind this link, and links are not followed: %s", w.instead(path))
				break
			}
		}
		return false
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() || !w.inside(path) {
		return false
	}
	target, err := real(path)
	if err != nil {
		return false // removed meanwhile
	}
	for at := path; len(at) > len(w.root.path); {
		at = filepath.Dir(at)
		if r, err := real(at); err == nil && r == target {
			w.diagnose(protocol.LevelInfo, CodeLinkLoop, path, "the link leads back to %s", at)
			return false
		}
	}
	return true
}

// instead returns what makes the host find what is behind a link.
func (w *walk) instead(path string) string {
	if target, err := real(path); err == nil && within(w.root.real, target) {
		return "set extensions.follow_links, or move it here"
	}
	return "it leaves the search path, so move it here, or add its directory to extensions.search_paths"
}

// inside reports whether the target of path is within the root, and adds a diagnostic if not. A missing path is inside.
func (w *walk) inside(path string) bool {
	target, err := real(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err != nil {
			return true
		}
		w.diagnose(protocol.LevelInfo, CodeLinkBroken, path, "the link leads to nothing")
		return false
	case err != nil:
		w.diagnose(protocol.LevelWarn, CodeUnreadable, path, "the link cannot be followed: %v", withoutPath(err))
		return false
	case !within(w.root.real, target):
		w.diagnose(protocol.LevelError, CodeLinkEscapes, path, "the link leaves the search path: it leads to %s",
			target)
		return false
	}
	return true
}

// real returns the absolute path with all links resolved.
func real(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// within reports whether path is dir or below it; /srv/ext-evil is not below /srv/ext.
func within(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || strings.HasSuffix(dir, string(filepath.Separator)) || rest[0] == filepath.Separator)
}

// withoutPath removes the path from an error, because the diagnostic has it.
func withoutPath(err error) error {
	if perr := (*fs.PathError)(nil); errors.As(err, &perr) {
		return perr.Err
	}
	return err
}
