// Package scaffold creates new extensions that run in place, and updates their SDK files.
// It works offline, except for downloads of Go modules.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/manifest"
)

//go:embed all:templates
var templates embed.FS

// language is a kind of extension that Create supports.
type language struct {
	name  string
	about string
	main  string // the file that an author edits
	sdk   string // the SDK's file in the extension; "": none
	note  string // for the README
}

const sdkNote = "; `exthost init --update-sdk {{Dir}}` updates it after an update of exthost."

var languages = []language{
	{"python", "a Python program with the one-file SDK", "main.py", "exthost.py",
		" `exthost.py` is the SDK\nfor Python" + sdkNote},
	{"node", "a Node.js program with the one-file SDK", "main.mjs", "exthost.mjs",
		" `exthost.mjs` is the SDK\nfor Node.js" + sdkNote},
	{"go", "a Go program with the SDK package", "main.go", "",
		" After a change of\n`main.go`: `go build -o {{ID}} .`, in this directory."},
	{"bash", "a shell script that answers one line with another", "main.sh", "", ""},
	{"exec", "commands that exist already, and no program", "plugin.toml", "", ""},
	{"mcp", "an MCP server, here in Python without dependencies", "server.py", "", ""},
}

// Languages returns the values of Options.Lang in the order of the documentation, and a
// description of each.
func Languages() (names []string, about map[string]string) {
	about = make(map[string]string)
	for _, l := range languages {
		names = append(names, l.name)
		about[l.name] = l.about
	}
	return names, about
}

// Options configure Create.
type Options struct {
	ID   string // of the extension
	Dir  string // must be missing or empty
	Lang string // one of Languages, with Plugin one of PluginLanguages
	// Plugin writes a package of Agent Plugins, for every client of that format.
	Plugin bool
	// Version is the exthost version for SDK files and Go modules.
	Version string
}

// ErrExists is wrapped by Create's error if Dir is not empty.
var ErrExists = errors.New("it exists already")

// Create writes an extension and returns the names of its files. It overwrites nothing, and removes its files if it
// fails.
func Create(o Options) (files []string, err error) {
	if entries, err := os.ReadDir(o.Dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s: %w", o.Dir, ErrExists)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	contents, err := render(o)
	if err != nil {
		return nil, err
	}
	for _, f := range contents {
		if err := file.CheckBelowHere(filepath.Join(o.Dir, f.name)); err != nil {
			return nil, err
		}
	}
	existed := exists(o.Dir)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range contents {
		at := filepath.Join(o.Dir, filepath.FromSlash(f.name))
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, f.data, f.mode)
		}
		if err != nil {
			cleanUp(o.Dir, existed, contents)
			return nil, err
		}
		files = append(files, f.name)
	}
	return files, nil
}

// slashDir returns the directory for texts.
func (o Options) slashDir() string { return filepath.ToSlash(o.Dir) }

// render returns the files of an extension or a plugin, sorted by name.
func render(o Options) ([]output, error) {
	if o.Plugin {
		return renderPlugin(o)
	}
	i := slices.IndexFunc(languages, func(l language) bool { return l.name == o.Lang })
	if i < 0 {
		names, _ := Languages()
		return nil, fmt.Errorf("there is no language %q; there is %s", o.Lang, strings.Join(names, ", "))
	}
	if err := manifest.ValidateID(o.ID); err != nil {
		return nil, err
	}
	return languages[i].render(o)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// cleanUp removes the files that Create wrote.
func cleanUp(dir string, keep bool, contents []output) {
	if root, err := os.OpenRoot(dir); err == nil {
		for _, f := range contents {
			_ = file.RemoveIn(root, f.name) // the error of the write says more
		}
		root.Close()
	}
	if !keep {
		_ = os.Remove(dir) // fails unless empty
	}
}

type output struct {
	name string
	data []byte
	mode fs.FileMode
}

// render returns the files of an extension, sorted by name.
func (l language) render(o Options) (files []output, err error) {
	entries, err := templates.ReadDir(path.Join("templates", l.name))
	if err != nil {
		return nil, err
	}
	sources := []string{"templates/README.md.tmpl"}
	for _, e := range entries {
		sources = append(sources, path.Join("templates", l.name, e.Name()))
	}
	values := strings.NewReplacer("{{ID}}", o.ID, "{{Dir}}", o.slashDir(), "{{Main}}", l.main)
	for _, source := range sources {
		text, err := templates.ReadFile(source)
		if err != nil {
			return nil, err
		}
		filled := values.Replace(strings.Replace(string(text), "{{Note}}", l.note, 1))
		f := output{strings.TrimSuffix(path.Base(source), ".tmpl"), []byte(filled), 0o644}
		if strings.HasSuffix(f.name, ".sh") {
			f.mode = 0o755
		}
		files = append(files, f)
	}
	files = append(files, output{"plugin.schema.json", append(manifest.Schema(), '\n'), 0o644})
	for name, source := range sdkFiles(l.sdk) {
		files = append(files, output{name, vendored(name, source, o.Version), 0o644})
	}
	if l.name == "go" {
		more, err := o.goModule()
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	slices.SortFunc(files, func(a, b output) int { return strings.Compare(a.name, b.name) })
	return files, nil
}
