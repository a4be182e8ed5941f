package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/envfile"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
)

// unset is a reference ${NAME} to a variable that is not set.
type unset struct {
	path, name string
	pos        strict.Pos
}

func (u unset) String() string {
	return fmt.Sprintf("%s: %s: the variable %s is not set; set it, or write ${%s:-default}", u.pos, u.path, u.name,
		u.name)
}

// noteUnset notes each unset variable at the extension or destination that needs it, unless a stronger layer has
// replaced the value.
func (f *finisher) noteUnset(all []unset) {
	of := func(section, name string) (list []string) {
		for _, u := range all {
			if strings.HasPrefix(u.path, strict.Join(section, name)+".") && f.decoder.Positions[u.path] == u.pos {
				list = append(list, u.String())
			}
		}
		return slices.Compact(list)
	}
	for id, e := range f.cfg.Extensions.Entries {
		e.Problems = append(e.Problems, of("extensions.entries", id)...)
		f.cfg.Extensions.Entries[id] = e
	}
	for name, d := range f.cfg.Destinations {
		d.Unset = of("destinations", name)
		f.cfg.Destinations[name] = d
	}
}

// readEnvFiles reads the env_file of each entry. An unreadable file is a problem of its extension alone.
func (f *finisher) readEnvFiles() (files []string) {
	for _, id := range slices.Sorted(maps.Keys(f.cfg.Extensions.Entries)) {
		e := f.cfg.Extensions.Entries[id]
		if e.EnvFile == "" || len(e.Problems) > 0 {
			continue
		}
		files = append(files, e.EnvFile)
		var err error
		if refused := f.owners.Named(e.EnvFile); refused != nil {
			err = refused
		} else {
			e.FileEnv, err = envfile.Read(e.EnvFile, id)
		}
		if err != nil {
			path := strict.Join("extensions.entries", id) + ".env_file"
			pos, _ := f.decoder.Positions.At(path)
			e.Problems = append(e.Problems, fmt.Sprintf("%s: %s: %v", pos, path, err))
		}
		f.cfg.Extensions.Entries[id] = e
	}
	return files
}

// secretsBeside returns secrets.yaml or secrets.yml beside a file of destinations, or "". It is the default
// secrets_file, with a section for each destination.
func (f *finisher) secretsBeside(pos strict.Pos) string {
	base := filepath.Base(pos.File)
	if strings.TrimSuffix(base, filepath.Ext(base)) != "destinations" {
		return ""
	}
	for _, name := range []string{"secrets.yaml", "secrets.yml"} {
		file := filepath.Join(filepath.Dir(pos.File), name)
		if _, err := os.Stat(file); err == nil {
			if abs, err := filepath.Abs(file); err == nil {
				return abs
			}
		}
	}
	return ""
}

// Environ returns the variables that the operator sets for the extension id; env takes precedence over env_file. A
// sidecar server also gets the variables of its owner; its own take precedence.
func (e Extensions) Environ(id string) map[string]string {
	set := make(map[string]string)
	owner, _ := manifest.OwnerOf(id)
	for _, id := range []string{owner, id} {
		maps.Copy(set, e.Entries[id].FileEnv)
		maps.Copy(set, e.Entries[id].Env)
	}
	return set
}

// Problems says why the operator's values for the extension id cannot be used.
func (e Extensions) Problems(id string) []string {
	owner, server := manifest.OwnerOf(id)
	if !server {
		return e.Entries[id].Problems
	}
	return slices.Concat(e.Entries[owner].Problems, e.Entries[id].Problems)
}
