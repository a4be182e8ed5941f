package portable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// The bounds of a package.
const (
	maxFiles = 50_000
	maxBytes = 1 << 30
)

// replaced are the files that are not copied: the package states their content elsewhere, or has its own of that name.
var replaced = []string{manifest.FileName, "plugin.schema.json", ".mcp.json", agentplugin.FileName,
	agentplugin.ServersName, agentplugin.Namespace}

// copyAll copies the files of the extension.
func (p *packing) copyAll() error {
	var bytes int64
	return filepath.WalkDir(p.from, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.from, at)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case name == ".":
			return nil
		case slices.Contains(replaced, name):
			return p.leave(name, d)
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "__pycache__"):
			return fs.SkipDir
		case d.IsDir() && file.Same(at, p.to):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case secretFile(name):
			p.lost("the file %s: it may hold secrets, and is left out", name)
			return nil
		case !d.Type().IsRegular():
			p.lost("the file %s: it is a link or no regular file, and is left out", name)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if bytes += info.Size(); bytes > maxBytes || len(p.written) > maxFiles {
			return fmt.Errorf("%s has over %d files or %d MiB", p.from, maxFiles, maxBytes>>20)
		}
		return p.copy(at, name)
	})
}

// leave leaves out a file that the package has another of. One that was not read is named.
func (p *packing) leave(name string, d fs.DirEntry) error {
	if name == agentplugin.FileName || name == agentplugin.ServersName || name == agentplugin.Namespace {
		p.lost("%s: the new one is made of %s", name, manifest.FileName)
	}
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// secretFile reports whether a name is one that files with secrets have.
func secretFile(name string) bool {
	base := strings.ToLower(path.Base(name))
	return base == ".env" || strings.HasPrefix(base, ".env.") || base == ".npmrc" || base == ".netrc" ||
		slices.Contains([]string{".pem", ".key", ".p12", ".pfx"}, path.Ext(base))
}

func (p *packing) copy(at, name string) error {
	from, info, err := file.OpenRegular(at, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	to, err := p.create(name, mode, os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// add writes a file that may have been written before.
func (p *packing) add(name string, data []byte, mode fs.FileMode) error {
	to, err := p.create(name, mode, os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return errors.Join(err, to.Close())
}

func (p *packing) create(name string, mode fs.FileMode, flag int) (*os.File, error) {
	at := filepath.Join(p.to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, err
	}
	to, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|flag, mode)
	if err == nil {
		p.written[name] = true
	}
	return to, err
}

// undo removes what was written.
func (p *packing) undo() error {
	var errs []error
	if root, err := os.OpenRoot(p.to); err == nil {
		for name := range p.written {
			errs = append(errs, file.RemoveIn(root, name))
		}
		errs = append(errs, root.Close())
	}
	if !p.existed {
		_ = os.Remove(p.to) // fails unless empty
	}
	return errors.Join(errs...)
}
