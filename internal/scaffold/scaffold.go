// Package scaffold writes new extensions, ready to run where they are written, and
// keeps the SDK files in them up to date. It needs no network but for Go's modules.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/exthost/exthost/manifest"
)

//go:embed all:templates
var templates embed.FS

// language is a kind of extension that can be written.
type language struct {
	Name    string
	About   string
	Main    string // the file that an author works on
	SDK     string // the vendored file; "" when there is none
	Title   string // what the README calls the SDK's language
	Example string // behind "exthost call ext_…_hello"
}

var languages = []language{
	{"python", "a Python program with the one-file SDK", "main.py", "exthost.py", "Python", " name=Ada"},
	{"node", "a Node.js program with the one-file SDK", "main.mjs", "exthost.mjs", "Node.js", " name=Ada"},
	{"go", "a Go program with the SDK package", "main.go", "", "", " name=Ada"},
	{"bash", "a shell script that answers one line with another", "main.sh", "", "", " name=Ada"},
	{"exec", "commands that exist already, and no program", "plugin.toml", "", "", " name=Ada"},
	{"mcp", "an MCP server, here in Python without dependencies", "server.py", "", "", " name=Ada"},
}

// Languages returns what [Create] can write, in the order of its documentation,
// and what each is.
func Languages() (names []string, about map[string]string) {
	about = make(map[string]string)
	for _, l := range languages {
		names = append(names, l.Name)
		about[l.Name] = l.About
	}
	return names, about
}

// Options says what to write.
type Options struct {
	ID   string // of the extension
	Dir  string // where to; it must not exist, or be empty
	Lang string // one of Languages
	// Version is the exthost version that vendored files and Go modules name.
	Version string
}

// ErrExists is wrapped by Create's error when there is something in Dir.
var ErrExists = errors.New("it exists already")

// Create writes an extension and returns the names of its files. It replaces
// nothing, and what it began it removes again when it fails.
func Create(o Options) (files []string, err error) {
	i := slices.IndexFunc(languages, func(l language) bool { return l.Name == o.Lang })
	if i < 0 {
		names, _ := Languages()
		return nil, fmt.Errorf("there is no language %q; there is %s", o.Lang, strings.Join(names, ", "))
	}
	if err := manifest.ValidateID(o.ID); err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(o.Dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s: %w", o.Dir, ErrExists)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	contents, err := render(languages[i], o)
	if err != nil {
		return nil, err
	}
	existed := exists(o.Dir)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range contents {
		if err := os.WriteFile(filepath.Join(o.Dir, f.name), f.data, f.mode); err != nil {
			undo(o.Dir, existed, contents)
			return nil, err
		}
		files = append(files, f.name)
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// undo removes what Create wrote, and nothing else.
func undo(dir string, keep bool, contents []file) {
	for _, f := range contents {
		_ = os.Remove(filepath.Join(dir, f.name))
	}
	if !keep {
		_ = os.Remove(dir) // only if it is empty
	}
}

// file is one that is to be written.
type file struct {
	name string
	data []byte
	mode fs.FileMode
}

// render returns the files of an extension, in the order of their names.
func render(l language, o Options) (files []file, err error) {
	values := struct {
		language
		ID, Tool, Dir, Lang, Language string
	}{l, o.ID, strings.NewReplacer(".", "_").Replace(o.ID), filepath.ToSlash(o.Dir), l.Name, l.Title}
	sources := []string{"templates/README.md.tmpl"}
	entries, err := templates.ReadDir(path.Join("templates", l.Name))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		sources = append(sources, path.Join("templates", l.Name, e.Name()))
	}
	for _, source := range sources {
		t, err := template.ParseFS(templates, source)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, values); err != nil {
			return nil, err
		}
		f := file{strings.TrimSuffix(path.Base(source), ".tmpl"), b.Bytes(), 0o644}
		if strings.HasSuffix(f.name, ".sh") {
			f.mode = 0o755
		}
		files = append(files, f)
	}
	files = append(files, file{"plugin.schema.json", append(manifest.Schema(), '\n'), 0o644})
	for name, source := range sdkFiles(l.SDK) {
		files = append(files, file{name, vendored(name, source, o.Version), 0o644})
	}
	if l.Name == "go" {
		more, err := goModule(o)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}
