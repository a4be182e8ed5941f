package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/protocol"
)

// Edited says what [SetListed] did.
type Edited struct {
	File    string `json:"file"`    // that says so now; "" when none does
	Line    int    `json:"line"`    // in it
	Changed bool   `json:"changed"` // false: it was so before
	Created bool   `json:"created"` // the file was made
}

// String is where the list stands.
func (e Edited) String() string { return fmt.Sprintf("%s:%d", e.File, e.Line) }

// SetListed writes into the files of the configuration that a list of names in the
// extensions section, such as extensions.disabled, has one of them or has not, and
// leaves every other byte as it was. It edits the file that states the list; where
// none does, or it is the user's or the system's, which are everybody's, that of
// --config, else the one of the directory, exthost.yaml when there is none. The error,
// of kind config_invalid, says why no file can be made to say so, and nothing is
// written then.
func SetListed(o LoadOptions, key, name string, listed bool) (Edited, error) {
	e, _, err := planned(o, key, name, listed)
	if err != nil || !e.Changed {
		return e, err
	}
	unlock, err := lock(filepath.Dir(e.File))
	if err != nil {
		return Edited{}, protocol.Errorf(protocol.ConfigInvalid, "%s: somebody else is changing it: %w", e.File, err)
	}
	defer unlock()
	e, change, err := planned(o, key, name, listed) // another may have changed it meanwhile
	if err != nil || !e.Changed {
		return e, err
	}
	return write(e.File, change)
}

// planned says which file is to be changed, and how; not Changed says that there is
// nothing to do.
func planned(o LoadOptions, key, name string, listed bool) (Edited, edit.List, error) {
	change := edit.List{Section: "extensions", Key: key}
	l := newLoader(o)
	l.run()
	if l.report.Failed() {
		return Edited{}, change, protocol.Errorf(protocol.ConfigInvalid, "the configuration is invalid: %s", l.report.Diagnostics[0])
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
		return Edited{}, change, protocol.Errorf(protocol.ConfigInvalid, "%s is what %s says, whatever is in files; change it there", path, pos.Source)
	}
	file := l.ownFile(pos.File)
	if file != pos.File && listed {
		change.Add = append(slices.Clone(have), name)
	} else if file != pos.File { // which takes the place of what the other file says
		change.Add = slices.DeleteFunc(slices.Clone(have), func(s string) bool { return s == name })
	} else if listed {
		change.Add = []string{name}
	} else {
		change.Remove = name
	}
	return Edited{File: file, Changed: true}, change, nil
}

// ownFile is the file to edit when the list stands in stated, "" for nowhere.
func (l *loader) ownFile(stated string) string {
	shared := []string{l.systemDir(), l.userDir()}
	if file := l.configFile(); file != "" {
		return file
	}
	if stated != "" && !slices.ContainsFunc(shared, func(dir string) bool { return dir != "" && strings.HasPrefix(stated, dir+string(filepath.Separator)) }) {
		return stated
	}
	if single := l.existing(l.options.Dir, "exthost"); len(single) > 0 {
		return single[0]
	}
	config := filepath.Join(l.options.Dir, "config")
	for _, name := range splitNames {
		if len(l.existing(config, name)) > 0 {
			if own := l.existing(config, "extensions"); len(own) > 0 {
				return own[0]
			}
			return filepath.Join(config, "extensions.yaml")
		}
	}
	return filepath.Join(l.options.Dir, "exthost.yaml")
}

// write applies the change to a file, which it replaces as a whole or not at all.
func write(file string, change edit.List) (e Edited, err error) {
	e.File = file
	defer func() {
		if err != nil {
			err = protocol.Errorf(protocol.ConfigInvalid, "%s: %w", file, err)
		}
	}()
	target, err := filepath.EvalSymlinks(file)
	if errors.Is(err, os.ErrNotExist) {
		target, err, e.Created = file, nil, true
	}
	if err != nil {
		return e, cause(err)
	}
	var data []byte
	mode := os.FileMode(0o644)
	if !e.Created {
		if mode, err = writable(target); err == nil {
			data, err = os.ReadFile(target)
		}
		if err != nil {
			return e, cause(err)
		}
	}
	changed, line, err := edit.Apply(file, data, change)
	if err != nil {
		return e, err
	}
	if line == 0 {
		return e, fmt.Errorf("%s.%s gets that from a variable; change it by hand", change.Section, change.Key)
	}
	e.Line, e.Changed = line, true
	return e, cause(replaceFile(target, changed, mode))
}

// writable returns the mode of a file that may be written. One that is read-only could
// be replaced all the same, and is not: somebody meant it.
func writable(file string) (os.FileMode, error) {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o222 == 0 { // which is not said to root
		err = errors.New("it is read-only")
	}
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

// replaceFile writes a file aside and renames it, so that a reader has the old one
// or the new one.
func replaceFile(file string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
