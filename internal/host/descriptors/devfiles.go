package descriptors

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/runtime"
)

// Bounds of a search for the files of one extension.
const (
	maxDevFiles = 4096
	maxDevDirs  = 1024 // searched directories
)

// skippedDirs are directories that a ** does not enter, because tools rather than the author write them.
var skippedDirs = []string{".git", "node_modules", "target", "__pycache__", ".venv"}

// devFiles returns the files that match the [dev] watch globs of the manifest, sorted by name, and the
// directories in which such files may appear.
func devFiles(s *runtime.Spec) (files, dirs []string) {
	patterns := s.Manifest.Dev.Watch
	if len(patterns) == 0 {
		return nil, nil
	}
	enters := func(dir string, d fs.DirEntry) bool {
		return dir == s.Dir || !slices.Contains(skippedDirs, d.Name()) &&
			slices.ContainsFunc(patterns, func(p string) bool { return matchesBelow(p, relative(s.Dir, dir)) })
	}
	_ = filepath.WalkDir(s.Dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d == nil:
			return nil // removed during the search
		case d.IsDir() && !enters(file, d):
			return fs.SkipDir
		case d.IsDir() && len(dirs) == maxDevDirs:
			return fs.SkipAll
		case d.IsDir():
			dirs = append(dirs, file)
		case d.Type().IsRegular() && len(files) < maxDevFiles && MatchesDev(s, file):
			files = append(files, file)
		}
		return nil
	})
	return files, dirs
}

// DevFiles returns the files that match the [dev] watch globs of the manifest, sorted by name.
func DevFiles(s *runtime.Spec) []string {
	files, _ := devFiles(s)
	return files
}

// MatchesDev reports whether the absolute path file matches a [dev] watch glob of the manifest.
func MatchesDev(s *runtime.Spec, file string) bool {
	rel := relative(s.Dir, file)
	return rel != "" && slices.ContainsFunc(s.Manifest.Dev.Watch, func(g string) bool {
		return matchElements(strings.Split(path.Clean(g), "/"), strings.Split(rel, "/"))
	})
}

// relative returns file relative to dir, with slashes; "" if it is not below dir.
func relative(dir, file string) string {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// matchElements matches path elements against pattern elements; ** matches any number of elements, even none. It
// backtracks only to the last **, so it takes at most len(pattern)*len(name) steps.
func matchElements(pattern, name []string) bool {
	star, resume := -1, 0 // position of the last **, and of the last try after it in name
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == "**" {
			star, resume = p, n
			p++
			continue
		}
		if p < len(pattern) {
			if matched, err := path.Match(pattern[p], name[n]); matched && err == nil {
				p, n = p+1, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		resume++
		p, n = star+1, resume
	}
	return !slices.ContainsFunc(pattern[p:], func(element string) bool { return element != "**" })
}

// matchesBelow reports whether the glob may match a file below the directory dir.
func matchesBelow(glob, dir string) bool {
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
