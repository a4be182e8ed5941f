package store

import (
	"archive/zip"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxTarget = 4096 // bytes of a link's target
	maxHops   = 8    // links from one to the next
	maxLinks  = 1000 // in an archive
)

// links are the symbolic links of an archive.
type links struct {
	targets map[string]string // by path in the tree
	copied  int               // files and directories visited for copies
}

// zipLink notes a symbolic link, whose target is the content of its entry.
func (u unpacking) zipLink(f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("%q: %w", f.Name, err)
	}
	defer r.Close()
	target, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
	if err != nil {
		return fmt.Errorf("%q: %w", f.Name, err)
	}
	return u.link(f.Name, string(target))
}

// link notes a symbolic link. Its target must lie in the tree, by its text.
func (u unpacking) link(name, target string) error {
	rel, err := u.place(name, false)
	if err != nil || rel == "" {
		return err
	}
	if len(target) > maxTarget {
		return fmt.Errorf("%q is a symbolic link to a path of over %d bytes", name, maxTarget)
	}
	to := path.Join(path.Dir(rel), target)
	out := u.at != "" && to != u.at && !strings.HasPrefix(to, u.at+"/")
	if target == "" || path.IsAbs(target) || strings.ContainsAny(target, "\\:\x00") || out ||
		!filepath.IsLocal(filepath.FromSlash(to)) || to == "." {
		return fmt.Errorf("%q is a symbolic link to %q, which is not in the package", name, target)
	}
	if len(u.links.targets) >= maxLinks {
		return fmt.Errorf("the archive has over %d symbolic links", maxLinks)
	}
	u.links.targets[rel] = to
	return u.t.claim(rel, false)
}

// follow replaces the links by copies of what they lead to.
func (u unpacking) follow() error {
	if u.links == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(u.links.targets))
	for _, name := range names {
		if link, _, below := u.linkOn(path.Dir(name)); below {
			return fmt.Errorf("%q is a symbolic link below the symbolic link %q", name, link)
		}
	}
	for _, name := range names {
		target, err := u.end(name)
		if err != nil {
			return err
		}
		if err := u.copyLinked(name, target, names); err != nil {
			return err
		}
	}
	return nil
}

// end returns where the path of a link ends, whether its own target or a folder on the way is another link. What it
// returns does not depend on which links are replaced by copies already.
func (u unpacking) end(name string) (string, error) {
	at := name
	for range maxHops {
		link, rest, is := u.linkOn(at)
		if !is {
			return at, nil
		}
		at = path.Join(u.links.targets[link], rest)
	}
	return "", fmt.Errorf("%q is a symbolic link that leads to over %d others", name, maxHops)
}

// linkOn returns the first link on a path, and the rest of the path behind it.
func (u unpacking) linkOn(at string) (link, rest string, is bool) {
	for i := range len(at) + 1 {
		if i < len(at) && at[i] != '/' {
			continue
		}
		if _, is := u.links.targets[at[:i]]; is {
			return at[:i], strings.TrimPrefix(at[i:], "/"), true
		}
	}
	return "", "", false
}

// copyLinked copies the file or the directory target to the place of a link. names are those of all links, sorted.
func (u unpacking) copyLinked(name, target string, names []string) error {
	info, err := os.Lstat(filepath.Join(u.t.dir, filepath.FromSlash(target)))
	switch {
	case err != nil:
		return fmt.Errorf("%q is a symbolic link to %q, which is not in the package", name, target)
	case info.Mode().IsRegular():
		u.t.unclaim(name)
		return u.copyFile(name, target, info.Mode())
	case strings.HasPrefix(name+"/", target+"/"):
		return fmt.Errorf("%q is a symbolic link to the directory that it is in", name)
	}
	for _, other := range names {
		if strings.HasPrefix(other, target+"/") {
			return fmt.Errorf("%q is a symbolic link to a directory with the link %q, which is not followed", name,
				other)
		}
	}
	u.t.unclaim(name)
	root := filepath.Join(u.t.dir, filepath.FromSlash(target))
	return filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if u.links.copied++; u.links.copied > MaxFiles {
			return fmt.Errorf("%q is a symbolic link, and with it there are over %d files", name, MaxFiles)
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		return u.copyFile(path.Join(name, rel), path.Join(target, rel), info.Mode())
	})
}

// copyFile copies one file of the tree within it.
func (u unpacking) copyFile(name, target string, mode os.FileMode) error {
	f, err := os.Open(filepath.Join(u.t.dir, filepath.FromSlash(target)))
	if err != nil {
		return err
	}
	defer f.Close()
	return u.t.add(name, mode, f, u.left())
}
