package descriptors

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/runtime"
)

// Source identifies one version of an extension: its manifest, its configuration and environment, the files that
// its command line names, and the files that [dev] watch matches.
type Source struct {
	Sum [sha256.Size]byte // differs between versions
	// Exhausted means that file descriptors ran out while reading, so Sum is meaningless.
	Exhausted bool
	Dirs      []string // where new [dev] watch files may appear; nil without [dev] watch

	manifest [sha256.Size]byte // hash of the manifest only
	files    map[string]string // versions of files, by path
}

// SourceOf reads the version that s would run now.
func SourceOf(s *runtime.Spec) Source {
	watched, dirs := devFiles(s)
	src := Source{Dirs: dirs, files: make(map[string]string)}
	h := sha256.New()
	err := json.NewEncoder(h).Encode(s.Manifest)
	h.Sum(src.manifest[:0])
	err = errors.Join(err, json.NewEncoder(h).Encode([]any{
		s.ID,
		s.Dir,
		s.Options,
		s.Config,
		s.Env,
		s.Roots,
		s.Sandbox,
		s.NewPrivileges,
	}))
	for _, path := range slices.Concat(commandFiles(s), watched) {
		version, wrong := fileVersion(path, s.Dir)
		src.files[path], src.Exhausted = fmt.Sprintln(version, wrong), src.Exhausted || file.Exhausted(wrong)
		fmt.Fprintln(h, path, src.files[path])
	}
	fmt.Fprint(h, err) // always nil with these types
	h.Sum(src.Sum[:0])
	return src
}

// Differs returns the sorted base names of the files that differ from before; a changed manifest is listed as the
// base name of manifestName. The result is empty if only the configuration or the environment changed.
func (s Source) Differs(before Source, manifestName string) (names []string) {
	if s.manifest != before.manifest {
		names = append(names, filepath.Base(manifestName))
	}
	for _, files := range [][2]map[string]string{{s.files, before.files}, {before.files, s.files}} {
		for file, version := range files[0] {
			if name := filepath.Base(file); files[1][file] != version && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
