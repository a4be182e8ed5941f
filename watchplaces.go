package exthost

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// places is where a change may be a change of the roster, or of now, the one before,
// whose extensions may go on.
func (r *roster) places(now *roster) discovery.Places {
	dirs := slices.Clone(r.dirs)
	files := make(map[string]bool)
	for _, file := range r.cfg.Files {
		files[file] = true
		dirs = append(dirs, filepath.Dir(file))
		if target, err := filepath.EvalSymlinks(file); err == nil && target != file {
			files[target] = true
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	var globbed []*runtime.Spec
	known := r.everything()
	if now != nil {
		known = append(known, now.everything()...)
	}
	for _, x := range known {
		for _, file := range x.ownFiles() {
			files[file] = true
			dirs = append(dirs, filepath.Dir(file))
		}
		if len(x.source.dirs) > 0 {
			globbed = append(globbed, x.spec)
			dirs = append(dirs, x.source.dirs...)
		}
	}
	slices.Sort(dirs)
	return discovery.Places{
		Dirs:   slices.Compact(dirs),
		Ignore: r.cfg.Extensions.IgnoreDirs,
		Wants: func(path string) bool {
			switch filepath.Base(path) {
			case manifest.FileName, manifest.SidecarName:
				return true
			}
			return files[path] || slices.ContainsFunc(globbed, func(s *runtime.Spec) bool { return devMatches(s, path) })
		},
	}
}

// everything are the extensions and the destinations.
func (r *roster) everything() []*extension {
	list := r.inOrder()
	for _, name := range slices.Sorted(maps.Keys(r.bridged)) {
		list = append(list, r.bridged[name])
	}
	return list
}

// ownFiles are the paths on the command line that are not found on PATH, whether
// there is anything or not: a file that is removed may be on its way back.
func (x *extension) ownFiles() []string {
	paths := namedPaths(x.spec)
	if t := x.spec.Manifest.Transport; len(paths) > 0 && t.Script == "" && filepath.Base(commandLine(t)[0]) == commandLine(t)[0] {
		paths = paths[1:]
	}
	return paths
}

// sum tells r from what another look at the disk finds: by what extensions are made
// of, by the configuration, and by what is wrong with files.
func (r *roster) sum() [sha256.Size]byte {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(r.cfg) // it always encodes
	for _, x := range r.everything() {
		fmt.Fprintf(h, "%s %x\n", x.candidate.ID, x.source.sum)
	}
	for _, c := range r.skipped {
		fmt.Fprintln(h, "skipped", c.ID, c.Path)
	}
	for _, d := range r.diagnostics {
		if d.Level != protocol.LevelInfo {
			fmt.Fprintln(h, d.Level, d)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
