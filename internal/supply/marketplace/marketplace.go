// Package marketplace reads the files in which repositories list plugins to choose from: those of Claude Code, Codex,
// Cursor and Copilot.
package marketplace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// names are the files that are looked for, in this order, by their path in a repository.
var names = []string{".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json",
	".cursor-plugin/marketplace.json", ".github/plugin/marketplace.json"}

// Bounds of a marketplace.
const (
	maxBytes   = 8 << 20 // of its file
	maxPlugins = 5000
)

// Marketplace is a list of plugins.
type Marketplace struct {
	File    string // its path in the repository
	Name    string
	Plugins []Plugin // in the order of the file
}

// Plugin is one plugin of a list.
type Plugin struct {
	Name        string
	Description string
	Source      Source
	Reason      string // why it cannot be added; "" if it can
	// Entry is what the list says of it. Alone means that the plugin's own manifest does not count.
	Entry json.RawMessage
	Alone bool
}

// Source is where a plugin lies.
type Source struct {
	Git string // URL of the repository; "": that of the marketplace
	Ref string // commit, tag or branch of Git
	Dir string // folder in the repository, "." for its root
	NPM string // package and version of npm's registry, in place of a repository
}

// String returns where the plugin lies: a path in the marketplace's repository, or a source elsewhere; "" if that is
// not known.
func (s Source) String() string {
	switch {
	case s.NPM != "":
		return "npm:" + s.NPM
	case s.Git == "" && s.Dir == "":
		return ""
	case s.Git == "" && s.Dir == ".":
		return "./"
	case s.Git == "":
		return "./" + s.Dir
	case s.Dir == ".":
		return "git+" + s.Git + "@" + s.Ref
	}
	return "git+" + s.Git + "@" + s.Ref + "#./" + s.Dir
}

// ErrNone is the error of a folder without a marketplace.
var ErrNone = errors.New("it has no marketplace: " + strings.Join(names, ", "))

// Read reads the marketplace in a folder. The error is ErrNone if there is none.
func Read(dir string) (*Marketplace, error) {
	for _, name := range names {
		data, _, err := file.ReadRegular(filepath.Join(dir, filepath.FromSlash(name)), maxBytes+1, false)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("%s cannot be read: %w", name, err)
		case len(data) > maxBytes:
			return nil, fmt.Errorf("%s has more than %d MiB", name, maxBytes>>20)
		}
		m, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.File = name
		return m, nil
	}
	return nil, ErrNone
}

func parse(data []byte) (*Marketplace, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := rawjson.Check(data); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	var list struct {
		Name     string            `json:"name"`
		Plugins  []json.RawMessage `json:"plugins"`
		Metadata struct {
			PluginRoot string `json:"pluginRoot"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("it is no list of plugins: %w", err)
	}
	if len(list.Plugins) > maxPlugins {
		return nil, fmt.Errorf("it lists more than %d plugins", maxPlugins)
	}
	m := &Marketplace{Name: list.Name}
	count := map[string]int{}
	for n, entry := range list.Plugins {
		p := pluginOf(entry, list.Metadata.PluginRoot)
		if p.Name == "" {
			return nil, fmt.Errorf("plugins[%d] states no name", n)
		}
		count[p.Name]++
		m.Plugins = append(m.Plugins, p)
	}
	for i := range m.Plugins {
		if p := &m.Plugins[i]; count[p.Name] > 1 {
			p.Reason = fmt.Sprintf("the list has %d plugins of this name", count[p.Name])
		}
	}
	return m, nil
}

// Find returns the plugin of that name. The error says why it cannot be added.
func (m *Marketplace) Find(name string) (*Plugin, error) {
	known := make([]string, 0, len(m.Plugins))
	for i := range m.Plugins {
		p := &m.Plugins[i]
		known = append(known, p.Name)
		if p.Name != name {
			continue
		}
		if p.Reason != "" {
			return nil, fmt.Errorf("the plugin %s of %s cannot be added: %s", shown(name), m.File, p.Reason)
		}
		return p, nil
	}
	hint := ""
	if near := text.Nearest(name, known); near != "" {
		hint = "; did you mean " + shown(near) + "?"
	}
	return nil, fmt.Errorf("%s lists no plugin %s%s", m.File, shown(name), hint)
}

// Lists reports whether there is a plugin of that name, whether or not it can be added.
func (m *Marketplace) Lists(name string) bool {
	return slices.ContainsFunc(m.Plugins, func(p Plugin) bool { return p.Name == name })
}

// shown returns a text of the file for people and scripts, of one line and bounded.
func shown(name string) string { return display.Cut(display.Escape(name), 100) }

// pluginOf reads one entry.
func pluginOf(entry json.RawMessage, root string) Plugin {
	var e struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Source      json.RawMessage `json:"source"`
		Strict      *bool           `json:"strict"`
	}
	if err := json.Unmarshal(entry, &e); err != nil {
		return Plugin{Name: e.Name, Reason: "its entry cannot be read: " + err.Error()}
	}
	p := Plugin{Name: e.Name, Description: e.Description, Entry: entry, Alone: e.Strict != nil && !*e.Strict}
	if strings.ContainsAny(e.Name, "/\\#@\x00") || strings.HasPrefix(e.Name, ".") || shown(e.Name) != e.Name {
		p.Name = shown(e.Name)
		p.Reason = "its name has a character that the name of a plugin does not have, or is too long"
		return p
	}
	var err error
	if p.Source, err = sourceOf(e.Source, root); err != nil {
		p.Reason = err.Error()
	}
	return p
}

// stated is a source as an entry states it.
type stated struct {
	Kind    string `json:"source"`
	Path    string `json:"path"`
	Repo    string `json:"repo"`
	URL     string `json:"url"`
	Ref     string `json:"ref"`
	SHA     string `json:"sha"`
	Package string `json:"package"`
	Version string `json:"version"`
}

func sourceOf(raw json.RawMessage, root string) (s Source, err error) {
	if relative, ok := rawjson.Text(raw); ok {
		s.Dir, err = folder(path.Join(root, relative), relative)
		return s, err
	}
	var of stated
	if err := json.Unmarshal(raw, &of); err != nil || !rawjson.IsObject(raw) {
		return s, errors.New("its source is neither a path nor an object")
	}
	s.Ref = cmp.Or(of.SHA, of.Ref, "HEAD")
	switch of.Kind {
	case "local", "./", "":
		s.Ref = ""
	case "github":
		owner, name, ok := strings.Cut(of.Repo, "/")
		if !ok || owner == "" || name == "" || strings.ContainsAny(of.Repo, " :?#@\\") || strings.Contains(name, "/") {
			return s, fmt.Errorf("its source names no repository of GitHub: %q", shown(of.Repo))
		}
		s.Git = "https://github.com/" + of.Repo
	case "url", "git", "git-subdir":
		if !strings.HasPrefix(of.URL, "https://") {
			return s, fmt.Errorf("its source is no https address: %q", shown(of.URL))
		}
		s.Git = of.URL
	case "npm":
		s = Source{NPM: of.Package}
		if of.Version != "" {
			s.NPM += "@" + of.Version
		}
		return s, nil
	default:
		return s, fmt.Errorf("its source is of the kind %q, which is not known here", shown(of.Kind))
	}
	s.Dir, err = folder(of.Path, of.Path)
	return s, err
}

// folder returns a path in a repository. what is the path as it was stated.
func folder(name, what string) (string, error) {
	clean := path.Clean(name)
	if strings.ContainsAny(what, "\\\x00") || path.IsAbs(what) || !filepath.IsLocal(filepath.FromSlash(clean)) ||
		slices.Contains(strings.Split(what, "/"), "..") {
		return "", fmt.Errorf("its path %q leads out of the repository", shown(what))
	}
	return clean, nil
}
