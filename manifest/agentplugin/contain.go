package agentplugin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// refusal says why a file of the package cannot be used.
type refusal struct {
	name       string // within the package
	section    string
	text       string
	diagnostic *protocol.Diagnostic // if the host refuses the file, in place of text
}

// file returns the content of a regular file of the package; nil if there is none. The file may be a link to another
// one within the package.
func (r *reading) file(name string) ([]byte, *refusal) {
	path, err := r.resolve(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, r.refused(name, err)
	}
	data, info, err := file.ReadRegular(path, maxBytes+1, false)
	if err != nil {
		return nil, r.refused(name, err)
	}
	if r.o.Refuse != nil {
		if d := r.o.Refuse(filepath.Join(r.dir, name), info); d != nil {
			return nil, &refusal{name: name, diagnostic: d}
		}
	}
	if len(data) > maxBytes {
		return nil, &refusal{name: name, text: name + " has more than 256 KiB"}
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

func (r *reading) refused(name string, err error) *refusal {
	no := &refusal{name: name, text: name + " cannot be read: " + reason(err)}
	if errors.Is(err, errOutside) {
		no.section, no.text = "4.1", name+" "+errOutside.Error()
	} else if kind, ok := errors.AsType[file.NotRegular](err); ok {
		no.section, no.text = "6.2", name+" is "+string(kind)
	} else if file.Exhausted(err) {
		no.diagnostic = &protocol.Diagnostic{
			Level:   protocol.LevelError,
			Code:    manifest.CodeExhausted,
			Path:    filepath.Join(r.dir, name),
			Message: no.text,
		}
	}
	return no
}

// reason returns an error without its path.
func reason(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err.Error()
	}
	return err.Error()
}

var errOutside = errors.New("leads out of the package")

// resolve returns the path of a file or folder of the package with all links resolved. The error is errOutside if it
// lies outside of the package, and fs.ErrNotExist if the package has no entry of that name. A link to nothing is
// another error.
func (r *reading) resolve(name string) (string, error) {
	path := filepath.Join(r.dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !strings.ContainsRune(name, filepath.Separator) && info.Mode().Type()&(fs.ModeSymlink|fs.ModeIrregular) == 0 {
		return path, nil // nothing below the root is a link
	}
	if r.real == "" {
		if r.real, err = Root(r.dir); err != nil {
			return "", err
		}
	}
	real, err := within(r.real, filepath.Join(r.real, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = file.NotRegular("a link to nothing")
	}
	return real, err
}

// Root returns the absolute path of a folder with all links resolved, the PLUGIN_ROOT of a package in it.
func Root(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// within resolves the links of path. The error is errOutside if the result is not root or below it. root has no links.
func within(root, path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", errOutside
	}
	return real, junctions(root, rel)
}

// junctions returns errOutside if a folder between root and root/rel is a junction or another reparse point of Windows,
// whose target EvalSymlinks does not follow.
func junctions(root, rel string) error {
	if runtime.GOOS != "windows" {
		return nil
	}
	path := root
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeIrregular != 0 {
			return errOutside
		}
	}
	return nil
}
