package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/protocol"
)

// Edited is the result of [SetListed].
type Edited struct {
	File    string `json:"file"`    // the file that states the list; "" if none does
	Line    int    `json:"line"`    // line of the list, 1-based; 0 if unknown
	Changed bool   `json:"changed"` // false: the list was as requested
	Created bool   `json:"created"` // the file is new
}

// String returns file:line.
func (e Edited) String() string { return fmt.Sprintf("%s:%d", e.File, e.Line) }

// SetListed adds name to a list of the section extensions, such as extensions.disabled, or removes it if listed is
// false. Every other byte of the file stays unchanged. It edits the file of --config; without one, the directory's file
// that states the list, or the directory's main file, by default exthost.yaml. The user's and the system's files serve
// other directories too and are never edited. Errors are of kind config_invalid, or of the file system, and leave all
// files unchanged.
func SetListed(o LoadOptions, key, name string, listed bool) (Edited, error) {
	e, _, err := planned(o, key, name, listed)
	if err != nil || !e.Changed {
		return e, err
	}
	unlock, err := edit.Lock(e.File)
	if err != nil {
		return Edited{}, err
	}
	defer unlock()
	e, change, err := planned(o, key, name, listed) // again under the lock: another program may have changed the file
	if err != nil || !e.Changed {
		return e, err
	}
	e.Line, e.Created, err = edit.Write(e.File, func(data []byte) ([]byte, int, error) {
		changed, line, err := edit.Apply(e.File, data, change)
		if err == nil && line == 0 {
			err = fmt.Errorf("%s.%s gets that from a variable; change it by hand", change.Section, change.Key)
		}
		return changed, line, err
	})
	return e, err
}

// planned returns the file to change and the change, or no change if e.Changed is false.
func planned(o LoadOptions, key, name string, listed bool) (Edited, edit.List, error) {
	change := edit.List{Section: "extensions", Key: key}
	l := newLoader(o)
	l.run()
	if l.report.Failed() {
		return Edited{}, change, protocol.Errorf(protocol.ConfigInvalid, "the configuration is invalid: %s",
			l.report.Diagnostics[0])
	}
	path := "extensions." + key
	pos := l.decoder.Positions[path]
	have, ok := map[string][]string{"disabled": l.cfg.Extensions.Disabled, "allowlist": l.cfg.Extensions.Allowlist}[key]
	if !ok {
		panic("config: there is no list " + path)
	}
	if slices.Contains(have, name) == listed {
		return Edited{File: pos.File, Line: pos.Line}, change, nil
	}
	if pos.Source != "" {
		return Edited{}, change, protocol.Errorf(protocol.ConfigInvalid,
			"%s is what %s says, whatever is in files; change it there", path, pos.Source)
	}
	file := l.ownFile(pos.File)
	if file != pos.File && listed {
		change.Add = append(slices.Clone(have), name)
	} else if file != pos.File { // file's list will replace the other file's, so it needs all names
		change.Add = slices.DeleteFunc(slices.Clone(have), func(s string) bool { return s == name })
	} else if listed {
		change.Add = []string{name}
	} else {
		change.Remove = name
	}
	return Edited{File: file, Changed: true}, change, nil
}

// ownFile returns the file to edit, given the file that states the list ("" if none does).
func (l *loader) ownFile(stated string) string {
	shared := []string{l.systemDir(), l.userDir()}
	if file := l.configFile(); file != "" {
		return file
	}
	if stated != "" && !slices.ContainsFunc(shared,
		func(dir string) bool { return dir != "" && strings.HasPrefix(stated, dir+string(filepath.Separator)) }) {
		return stated
	}
	return l.fileOf(l.options.Dir, "extensions")
}

// fileOf returns the directory's file for a section: exthost.yaml or exthost.toml if one exists or the directory
// has no config/, else config/SECTION.
func (l *loader) fileOf(dir, section string) string {
	if single := l.existing(dir, "exthost"); len(single) > 0 {
		return single[0]
	}
	config := filepath.Join(dir, "config")
	for _, name := range splitNames {
		if len(l.existing(config, name)) > 0 {
			if own := l.existing(config, section); len(own) > 0 {
				return own[0]
			}
			return filepath.Join(config, section+".yaml")
		}
	}
	return filepath.Join(dir, "exthost.yaml")
}

// UserFile returns the file for the user's settings of a section: the file of --config, else the file in the user's
// directory. It may not exist yet.
func UserFile(o LoadOptions, section string) (string, error) {
	l := newLoader(o)
	if file := l.configFile(); file != "" {
		return file, nil
	}
	dir := l.userDir()
	if dir == "" {
		return "", protocol.Errorf(protocol.ConfigInvalid,
			"there is no directory for the user's configuration; set XDG_CONFIG_HOME, or name a file with --config")
	}
	return l.fileOf(dir, section), nil
}
