package exthost

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/runtime"
)

// What the globs of one extension may match.
const (
	maxDevFiles = 4096
	maxDevDirs  = 1024 // that are searched
)

// unsearched are directories that a ** does not enter: what others wrote.
var unsearched = []string{".git", "node_modules", "target", "__pycache__", ".venv"}

// devTree returns the files that match the [dev] watch globs of the manifest, in
// order of name, and the directories in which such files may come to be.
func devTree(s *runtime.Spec) (files, dirs []string) {
	patterns := s.Manifest.Dev.Watch
	if len(patterns) == 0 {
		return nil, nil
	}
	mayHold := func(dir string, d fs.DirEntry) bool {
		return dir == s.Dir || !slices.Contains(unsearched, d.Name()) &&
			slices.ContainsFunc(patterns, func(p string) bool { return leads(p, relative(s.Dir, dir)) })
	}
	_ = filepath.WalkDir(s.Dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d == nil:
			return nil // it has gone meanwhile
		case d.IsDir() && !mayHold(file, d):
			return fs.SkipDir
		case d.IsDir() && len(dirs) == maxDevDirs:
			return fs.SkipAll
		case d.IsDir():
			dirs = append(dirs, file)
		case d.Type().IsRegular() && len(files) < maxDevFiles && devMatches(s, file):
			files = append(files, file)
		}
		return nil
	})
	return files, dirs
}

// devMatches reports whether a [dev] watch glob matches the file.
func devMatches(s *runtime.Spec, file string) bool {
	rel := relative(s.Dir, file)
	return rel != "" && slices.ContainsFunc(s.Manifest.Dev.Watch, func(g string) bool {
		return globs(strings.Split(path.Clean(g), "/"), strings.Split(rel, "/"))
	})
}

// relative is file as globs see it; "" when it is not below dir.
func relative(dir, file string) string {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// globs matches name with pattern, element by element: ** is any number of them.
func globs(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return globs(pattern[1:], name) || len(name) > 0 && globs(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	matched, err := path.Match(pattern[0], name[0])
	return err == nil && matched && globs(pattern[1:], name[1:])
}

// leads reports whether something below the directory may match the glob.
func leads(glob, dir string) bool {
	pattern := strings.Split(path.Clean(glob), "/")
	for i, name := range strings.Split(dir, "/") {
		if i >= len(pattern)-1 {
			return i < len(pattern) && pattern[i] == "**"
		}
		if pattern[i] == "**" {
			return true
		}
		if matched, err := path.Match(pattern[i], name); err != nil || !matched {
			return false
		}
	}
	return true
}
