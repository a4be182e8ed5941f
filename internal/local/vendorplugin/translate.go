package vendorplugin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/manifest"
)

// Translate writes the plugin.toml that runs the plugin in dir. listed is its entry in a marketplace, nil for none.
// Skills that the plugin has elsewhere are put below skills/; where the entry states all of the plugin, skills/ then
// has those alone that it names. dir is a folder of regular files that nobody else uses. ok is false if it holds no
// such plugin.
func Translate(dir string, listed *marketplace.Plugin) (p *Plugin, ok bool, err error) {
	if find(dir) == "" && (listed == nil || !listed.Alone && !hasParts(dir)) {
		return nil, false, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, manifest.FileName)); err == nil {
		return nil, true, fmt.Errorf("it has a %s of its own; copy the folder into a search path to run it",
			manifest.FileName)
	}
	notes, err := arrange(dir, listed)
	if err != nil {
		return nil, true, err
	}
	if p, err = read(dir, listed, true); p != nil {
		p.Notes = append(notes, p.Notes...)
		p.Notes = p.Notes[:min(len(p.Notes), maxNotes)]
	}
	if err != nil {
		return p, true, err
	}
	return p, true, os.WriteFile(filepath.Join(dir, manifest.FileName), p.TOML(), 0o444)
}

// hasParts reports whether a folder without a manifest has what a plugin of Claude Code may have without one.
func hasParts(dir string) bool {
	return slices.ContainsFunc([]string{"skills", ".mcp.json", hooksFile}, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil
	})
}

// arrange puts the skills that the plugin has elsewhere below skills/. It removes all others if the entry of a
// marketplace states all of the plugin. notes name the skills that it leaves where they are.
func arrange(dir string, listed *marketplace.Plugin) (notes []Note, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	r := &arranger{
		reader:  &reader{listed: listed, root: root, plugin: &Plugin{}},
		entries: maxArranged,
		bytes:   maxArrangedBytes,
	}
	if r.manifest(formatOf(cmp.Or(find(dir), Claude))) != nil {
		return nil, nil // Read says why
	}
	folders, err := r.skillFolders()
	if err != nil || len(folders) == 0 {
		return r.plugin.Notes, err
	}
	if r.exists(chosen) { // copied into itself, it would grow without end
		return nil, fmt.Errorf("it has a %s, where the skills that it names elsewhere would be collected", chosen)
	}
	for _, from := range folders {
		if err := r.copy(from, path.Join(chosen, path.Base(from))); err != nil {
			return nil, err
		}
	}
	if r.alone() {
		if err := root.RemoveAll("skills"); err != nil {
			return nil, err
		}
		return r.plugin.Notes, root.Rename(chosen, "skills")
	}
	if err := root.MkdirAll("skills", 0o755); err != nil {
		return nil, err
	}
	for _, from := range folders {
		if err := root.Rename(path.Join(chosen, path.Base(from)), path.Join("skills", path.Base(from))); err != nil {
			return nil, err
		}
	}
	return r.plugin.Notes, root.RemoveAll(chosen)
}

// chosen is the folder in which skills are collected.
const chosen = ".exthost-skills"

// Bounds of arrange. They stop a plugin that names nested folders as skills, each of which is copied with all below it.
const (
	maxArranged      = 16384    // files and directories
	maxArrangedBytes = 64 << 20 // of the files
	maxSkillFile     = 16 << 20 // bytes of one
)

// arranger is the state of one call of arrange.
type arranger struct {
	*reader
	entries int   // files and directories that may still be looked at
	bytes   int64 // that may still be copied
}

// look counts files and directories.
func (r *arranger) look(n int) error {
	if r.entries -= n; r.entries < 0 {
		return fmt.Errorf("where it names skills there are over %d files and directories", maxArranged)
	}
	return nil
}

// skillFolders returns the folders of the skills that the manifest or the marketplace's entry names.
func (r *arranger) skillFolders() (list []string, err error) {
	for _, stated := range r.paths("skills") {
		name, ok := local(stated)
		if !ok || name == "." {
			continue
		}
		in := []string{name}
		if !r.exists(path.Join(name, skillFile)) {
			entries, _ := fs.ReadDir(r.root.FS(), name)
			if err := r.look(len(entries)); err != nil {
				return nil, err
			}
			in = nil
			for _, e := range entries {
				if at := path.Join(name, e.Name()); e.IsDir() && r.exists(path.Join(at, skillFile)) {
					in = append(in, at)
				}
			}
		}
		if in == nil && name != "skills" {
			r.note("skills", true, "%s: neither it nor a folder in it has a %s", stated, skillFile)
		}
		for _, from := range in {
			if r.wanted(from, list) {
				list = append(list, from)
			}
		}
	}
	return list, nil
}

// wanted reports whether the skill in the folder from is to be copied. A second one of a name is not, and is named.
func (r *arranger) wanted(from string, list []string) bool {
	if slices.Contains(list, from) || len(list) == maxSkills || !r.alone() && path.Dir(from) == "skills" {
		return false
	}
	twin := func(other string) bool { return path.Base(other) == path.Base(from) }
	if slices.ContainsFunc(list, twin) || !r.alone() && r.exists(path.Join("skills", path.Base(from))) {
		r.note("skills", true, "%s: another skill of the plugin has that name, and comes first", from)
		return false
	}
	return true
}

// copy copies the files of a folder.
func (r *arranger) copy(from, to string) error {
	return fs.WalkDir(r.root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = r.look(1)
		}
		if err != nil {
			return err
		}
		at := path.Join(to, name[len(from):])
		if d.IsDir() {
			return r.root.MkdirAll(filepath.FromSlash(at), 0o755)
		}
		data, info, err := file.ReadRegularIn(r.root, filepath.FromSlash(name), maxSkillFile+1)
		switch r.bytes -= int64(len(data)); {
		case err != nil:
		case len(data) > maxSkillFile:
			err = errors.New("it is too large for a file of a skill")
		case r.bytes < 0:
			err = fmt.Errorf("with it, the skills that it names have over %d MiB", maxArrangedBytes>>20)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return r.root.WriteFile(filepath.FromSlash(at), data, info.Mode().Perm())
	})
}
