package exthost

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/runtime"
)

// source is what an extension is made of: its manifest, all that the configuration
// and the environment add, the files that its command line names, and those that it
// lists in [dev] watch.
type source struct {
	sum      [sha256.Size]byte // tells it from another version of the extension
	manifest [sha256.Size]byte // the same of its manifest alone
	files    map[string]string // the same of each file, by path
	dirs     []string          // in which files that [dev] watch names may come to be
}

// sourceOf reads what s would run now.
func sourceOf(s *runtime.Spec) source {
	watched, dirs := devTree(s)
	src := source{files: make(map[string]string), dirs: dirs}
	h := sha256.New()
	err := json.NewEncoder(h).Encode(s.Manifest)
	h.Sum(src.manifest[:0])
	err = errors.Join(err, json.NewEncoder(h).Encode([]any{s.ID, s.Dir, s.Options, s.Config, s.Env}))
	for _, file := range slices.Concat(namedFiles(s), watched) {
		sum, wrong := identify(file, s.Dir)
		src.files[file] = fmt.Sprintln(sum, wrong)
		fmt.Fprintln(h, file, src.files[file])
	}
	fmt.Fprint(h, err) // there is none, with these types
	h.Sum(src.sum[:0])
	return src
}

// differs names the files in which x is another than before, by their base names;
// none when it is the configuration or the environment that changed.
func (x *extension) differs(before *extension) (names []string) {
	if x.source.manifest != before.source.manifest {
		names = append(names, filepath.Base(x.candidate.Path))
	}
	for _, files := range [][2]map[string]string{{x.source.files, before.source.files}, {before.source.files, x.source.files}} {
		for file, sum := range files[0] {
			if name := filepath.Base(file); files[1][file] != sum && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
