package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/foreign"
	"github.com/exthost/exthost/internal/text/strict"
)

var (
	extensionsOfFiles = []string{".yaml", ".yml", ".toml"}
	// splitNames are the base names of the files in config/, in the order of reading.
	splitNames = []string{"exthost", "extensions", "plugins", "hooks", "destinations", "server", "log"}
)

// baseOf returns the directory that a file's relative paths start from: its own, or the parent of config/.
func baseOf(file string) string {
	dir, base := filepath.Dir(file), filepath.Base(file)
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(abs) == "config" &&
		slices.Contains(splitNames, strings.TrimSuffix(base, filepath.Ext(base))) {
		return filepath.Dir(abs)
	}
	return dir
}

// directory reads exthost.yaml or exthost.toml of dir, else the files of dir/config, plus destinations.yaml, .yml
// or .toml, as one tree. It returns nil if dir has none of them.
func (l *loader) directory(dir string) *strict.Node {
	single, beside := l.existing(dir, "exthost"), l.existing(dir, "destinations")
	var split []string
	for _, name := range splitNames {
		split = append(split, l.existing(filepath.Join(dir, "config"), name)...)
	}
	switch {
	case len(single) > 1:
		l.report.Add(strict.Pos{File: single[1]}, "keep one of the two", "%s exists as well", single[0])
		return nil
	case len(single) == 1:
		for _, file := range split {
			l.report.Warn(strict.Pos{File: file}, "move it there, or split all of it", "not read because %s exists",
				single[0])
		}
		split = single
	}
	var joined *strict.Node
	for _, file := range append(split, beside...) {
		n := l.file(file)
		if n != nil {
			foreign.Rewrite(n, l.report)
		}
		switch {
		case n == nil:
		case joined == nil:
			joined = n
		default:
			joined.Merge(n, l.report)
		}
	}
	return joined
}

func (l *loader) existing(dir, name string) (files []string) {
	for _, ext := range extensionsOfFiles {
		file := filepath.Join(dir, name+ext)
		l.note(file)
		_, err := os.Lstat(file) // a dangling link exists: reading it must fail
		switch {
		case err == nil:
			files = append(files, file)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			l.report.Add(strict.Pos{File: file}, "", "cannot be read: %v", cause(err))
		}
	}
	return files
}

// file parses one file. It returns nil for a file that was read before, and after reporting an error.
func (l *loader) file(name string) *strict.Node {
	pos := strict.Pos{File: name}
	l.note(name)
	data, info, err := file.ReadRegular(name, edit.MaxBytes+8, true)
	if _, ok := errors.AsType[file.NotRegular](err); ok {
		err = errors.New("it is not a regular file")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.report.Add(pos, "exthost runs without any; exthost.yaml is the usual name", "there is no such file")
		return nil
	case err != nil:
		l.report.Add(pos, "", "cannot be read: %v", cause(err))
		return nil
	}
	if refused := l.owners.File(name, info); refused != nil {
		l.report.Add(pos, refused.Hint, "not used: %s", refused.Message)
		return nil
	}
	for _, seen := range l.seen {
		if os.SameFile(seen, info) {
			return nil
		}
	}
	l.seen, l.read = append(l.seen, info), append(l.read, name)
	sum := sha256.Sum256(data)
	l.sums[name] = hex.EncodeToString(sum[:])
	root := parse(name, data, l.report)
	if root != nil && root.Kind != strict.Map && root.Kind != strict.Null {
		l.report.Add(root.Pos, "such as: extensions: {search_paths: [./extensions]}", "want a map of sections, not %s",
			root.Kind)
		return nil
	}
	return root
}

// note adds a file to Config.Files, whether it exists or not.
func (l *loader) note(file string) {
	if abs, err := filepath.Abs(file); err == nil && !slices.Contains(l.looked, abs) {
		l.looked = append(l.looked, abs)
	}
}

// parse returns the tree of a file, or nil after reporting an error.
func parse(name string, data []byte, r *strict.Report) *strict.Node {
	src := strict.NewSource(name, data)
	if size := len(src.Text); size > edit.MaxBytes {
		r.Add(strict.Pos{File: name}, "", "%d bytes are more than a configuration file may have (%d)", size,
			edit.MaxBytes)
		return nil
	}
	if at := src.Invalid(); at >= 0 {
		r.Add(src.Pos(at), "save it as UTF-8", "not UTF-8 text")
		return nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		return parseTOML(src, r)
	case ".yaml", ".yml", ".json": // JSON is YAML
		return strict.YAML(src, r)
	}
	r.Add(strict.Pos{File: name}, "", "a configuration file ends in .yaml, .yml or .toml")
	return nil
}

func parseTOML(src *strict.Source, r *strict.Report) *strict.Node {
	root, refusal := strict.TOML(src, strict.Rules{})
	switch {
	case refusal == nil:
	case refusal.Limit:
		r.Add(refusal.Pos, "", "%s", refusal.Message)
	default:
		r.Add(refusal.Pos, "", "not valid TOML: %s", refusal.Message)
	}
	return root
}

// cause strips the operation and the path, which the diagnostic states already.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
