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
	if err := arrange(dir, listed); err != nil {
		return nil, true, err
	}
	if p, err = Read(dir, listed); err != nil {
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
// marketplace states all of the plugin.
func arrange(dir string, listed *marketplace.Plugin) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &reader{listed: listed, root: root, plugin: &Plugin{}}
	if r.manifest(formatOf(cmp.Or(find(dir), Claude))) != nil {
		return nil // Read says why
	}
	folders := r.skillFolders()
	if len(folders) == 0 {
		return nil
	}
	const chosen = ".exthost-skills"
	for _, from := range folders {
		if err := r.copy(from, path.Join(chosen, path.Base(from))); err != nil {
			return err
		}
	}
	if r.alone() {
		if err := root.RemoveAll("skills"); err != nil {
			return err
		}
		return root.Rename(chosen, "skills")
	}
	if err := root.MkdirAll("skills", 0o755); err != nil {
		return err
	}
	for _, from := range folders {
		to := path.Join("skills", path.Base(from))
		if r.exists(to) {
			continue // one in the place for skills comes first
		}
		if err := root.Rename(path.Join(chosen, path.Base(from)), to); err != nil {
			return err
		}
	}
	return root.RemoveAll(chosen)
}

// skillFolders returns the folders of the skills that the manifest or the marketplace's entry names.
func (r *reader) skillFolders() (list []string) {
	add := func(name string) {
		if r.exists(path.Join(name, skillFile)) && !slices.Contains(list, name) && len(list) < maxSkills {
			list = append(list, name)
		}
	}
	for _, stated := range r.paths("skills") {
		name, ok := local(stated)
		if !ok || name == "." {
			continue
		}
		if add(name); r.exists(path.Join(name, skillFile)) {
			continue
		}
		entries, _ := fs.ReadDir(r.root.FS(), name)
		for _, e := range entries {
			add(path.Join(name, e.Name()))
		}
	}
	if !r.alone() {
		list = slices.DeleteFunc(list, func(name string) bool { return path.Dir(name) == "skills" })
	}
	return list
}

// copy copies the files of a folder.
func (r *reader) copy(from, to string) error {
	return fs.WalkDir(r.root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := path.Join(to, name[len(from):])
		if d.IsDir() {
			return r.root.MkdirAll(filepath.FromSlash(at), 0o755)
		}
		data, info, err := file.ReadRegularIn(r.root, filepath.FromSlash(name), maxSkillFile+1)
		if err == nil && len(data) > maxSkillFile {
			err = errors.New("it is too large for a file of a skill")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return r.root.WriteFile(filepath.FromSlash(at), data, info.Mode().Perm())
	})
}

// maxSkillFile bounds a file of a skill, as its reader does.
const maxSkillFile = 16 << 20
