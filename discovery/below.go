package discovery

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// Bounds of what [walk.lookBelow] looks at in the directory of one extension.
const (
	maxBelow     = 1000 // entries
	maxBelowRead = 32   // manifests
)

// lookBelow keeps the ids of valid manifests in the subdirectories of an extension, to report that they do not run.
// Deeper ones are not looked for, and no more than the bounds allow: an extension may have any number of files.
func (w *walk) lookBelow(outer found, m *manifest.Manifest) {
	outer.ID, outer.Manifest = m.Plugin.ID, m
	f, err := os.Open(outer.Dir)
	if err != nil {
		return // removed meanwhile
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxBelow + 1) // an error is the end, or hides what would be reported
	if len(entries) > maxBelow {
		w.diagnose(protocol.LevelInfo, CodeNotDescended, outer.Path,
			"its directory has over %d entries, which are not searched for extensions", maxBelow)
		return
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	read := 0
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(w.o.IgnoreDirs, e.Name()) {
			continue
		}
		dir := filepath.Join(filepath.Dir(outer.Path), e.Name())
		path := manifestIn(dir)
		if path == "" {
			continue
		}
		if read++; read > maxBelowRead {
			w.diagnose(protocol.LevelInfo, CodeNotDescended, outer.Path,
				"in its directory there are over %d extensions, and the others are not read", maxBelowRead)
			return
		}
		if id := w.readBelow(dir, path); id != "" {
			f := found{Candidate: Candidate{ID: id, Path: path, RootIndex: w.index}}
			w.mu.Lock()
			w.below = append(w.below, nested{f, outer})
			w.mu.Unlock()
		}
	}
}

// manifestIn returns the path of the manifest of a directory, "" if there is none.
func manifestIn(dir string) string {
	for _, name := range []string{manifest.FileName, agentplugin.FileName} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// readBelow returns the id in the manifest at path in dir; "" if it cannot be used.
func (w *walk) readBelow(dir, path string) string {
	var m *manifest.Manifest
	if filepath.Base(path) == manifest.FileName {
		m, _ = manifest.ReadFile(path, manifest.ReadOptions{Refuse: w.refuse})
	} else {
		m = agentplugin.Read(dir, agentplugin.Options{Refuse: w.refuse}).Manifest
	}
	if m == nil {
		return ""
	}
	return m.Plugin.ID
}
