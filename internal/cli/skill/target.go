package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/listing/skills"
)

const (
	recordName    = "exthost-skills.json"
	recordVersion = 1
	temporary     = ".exthost-skills.tmp" // a file that is being written

	maxRecord  = 16 << 20 // bytes
	maxContent = 16 << 20 // bytes of one file, the limit of a whole skill
	maxSeen    = 4096     // files of one folder that are compared
)

// record says what was written into a folder of skills.
type record struct {
	Version int                `json:"version"`
	Skills  map[string]written `json:"skills"` // by folder
}

// written is one skill that was written.
type written struct {
	Extension string            `json:"extension"`
	Files     map[string]string `json:"files"` // digests by path
	// Before has the digests of the previous version while the files are being replaced: after a break, files of both
	// versions are ours.
	Before map[string]string `json:"before,omitempty"`
}

// target is the folder of skills of a client. Everything is done below it: links that lead out are errors.
type target struct {
	root   *os.Root // nil: there is no such folder
	record record
	unlock func()
}

// openTarget opens the folder dir. Unless o only reads it, other runs of this program are kept out.
func openTarget(dir string, o options) (*target, error) {
	t := &target{record: record{recordVersion, map[string]written{}}, unlock: func() {}}
	var err error
	if t.root, err = openFolder(dir, o); err != nil {
		return nil, err
	}
	if t.root == nil {
		return t, nil
	}
	if !o.check {
		if t.unlock, err = file.LockDir(dir); err != nil {
			t.root.Close()
			return nil, err
		}
	}
	if err := t.read(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// openFolder opens the folder dir, and makes it if o writes; nil means that there is none. The directories of a project
// must not be links that lead out of it, since another person may have made them; those of the user may be links.
func openFolder(dir string, o options) (root *os.Root, err error) {
	makeAll, open := os.MkdirAll, os.OpenRoot
	if o.scope == scopeProject {
		project, err := os.OpenRoot(".")
		if err != nil {
			return nil, err
		}
		defer project.Close() // the folder below it stays open
		makeAll, open = project.MkdirAll, project.OpenRoot
	}
	if o.writes() {
		err = makeAll(dir, 0o755)
	}
	if err == nil {
		root, err = open(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && !o.writes():
		return nil, nil
	case err != nil && o.scope == scopeProject:
		return nil, &console.Error{
			Code: console.ExitDenied,
			Text: fmt.Sprintf("%s cannot be used, and nothing was written: %v", dir, reason(err)),
			Hint: "a link there must stay in this directory: ls -l " + filepath.Dir(dir),
		}
	}
	return root, err
}

// reason returns an error of the file system without the operation and the path.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func (t *target) close() {
	t.unlock()
	if t.root != nil {
		t.root.Close()
	}
}

// read reads the record.
func (t *target) read() error {
	data, _, err := file.ReadRegularIn(t.root, recordName, maxRecord+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err = d.Decode(&t.record)
	}
	if err == nil && t.record.Version != recordVersion {
		err = fmt.Errorf("it has version %d, this program writes %d", t.record.Version, recordVersion)
	}
	for name, w := range t.record.Skills {
		for _, at := range slices.Concat([]string{name}, slices.Collect(maps.Keys(w.Files)),
			slices.Collect(maps.Keys(w.Before))) {
			if err == nil && !filepath.IsLocal(filepath.FromSlash(at)) {
				err = fmt.Errorf("%q is no path below the folder", at)
			}
		}
	}
	if err != nil {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%s cannot be used, and nothing was changed: %v",
				filepath.Join(t.root.Name(), recordName), err),
			Hint: "restore it, or move it away: then what it lists is nobody's, and is not touched",
		}
	}
	if t.record.Skills == nil {
		t.record.Skills = map[string]written{}
	}
	return nil
}

// save writes the record; without skills it is removed.
func (t *target) save() error {
	if len(t.record.Skills) == 0 {
		if err := t.root.Remove(recordName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, _ := json.MarshalIndent(t.record, "", "  ") // texts always encode
	return t.replace(recordName, append(text, '\n'), 0o644)
}

// replace writes a file by way of another.
func (t *target) replace(name string, data []byte, mode fs.FileMode) error {
	if err := t.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := t.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = t.root.Rename(temporary, name)
	}
	if err != nil {
		_ = t.root.Remove(temporary) // the error of the write says more
	}
	return err
}

// compare compares a folder, which may be missing, with the record. foreign says why it is not or no longer what was
// written; "" if it is. complete reports whether it has all files of the version that was written last.
func (t *target) compare(name string) (foreign string, complete bool, err error) {
	info, err := t.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	w, ours := t.record.Skills[name]
	switch {
	case !ours:
		return "it was not written by exthost", false, nil
	case !info.IsDir():
		return "it is no directory", false, nil
	}
	var changes []string
	seen, current := 0, 0
	err = fs.WalkDir(t.root.FS(), name, func(full string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if seen++; seen > maxSeen {
			changes = append(changes, fmt.Sprintf("more than %d files", maxSeen))
			return fs.SkipAll
		}
		at := strings.TrimPrefix(full, name+"/")
		switch digest, err := t.digest(full, d); {
		case w.Files[at] == "" && w.Before[at] == "":
			changes = append(changes, at+" (new)")
		case err != nil || digest != w.Files[at] && digest != w.Before[at]:
			changes = append(changes, at)
		case digest == w.Files[at]:
			current++
		}
		return nil
	})
	if err != nil || len(changes) == 0 {
		return "", current == len(w.Files) && len(w.Before) == 0, err
	}
	return "it changed since exthost wrote it: " + strings.Join(changes[:min(len(changes), 5)], ", "), false, nil
}

// digest returns the digest of a regular file.
func (t *target) digest(name string, d fs.DirEntry) (string, error) {
	if !d.Type().IsRegular() {
		return "", errors.New("no regular file")
	}
	data, _, err := file.ReadRegularIn(t.root, name, maxContent+1)
	return skills.Digest(data), err
}

// plan sorts the wanted skills into those that are up to date and those to write, and finds the recorded ones that are
// wanted no longer, if all is set. Whatever is not ours is in out.Kept.
func (t *target) plan(wanted []found, all bool, out *projected) (write []found, remove []string, err error) {
	names := make(map[string]bool)
	for _, k := range wanted {
		names[k.Name] = true
		why, complete, err := t.compare(k.Name)
		switch {
		case err != nil:
			return nil, nil, err
		case why != "":
			out.Kept = append(out.Kept, k.Name+": "+why)
		case maps.Equal(t.record.Skills[k.Name].Files, digests(k)) && complete:
			out.Unchanged = append(out.Unchanged, k.Name)
		default:
			write = append(write, k)
		}
	}
	if all {
		for _, name := range slices.Sorted(maps.Keys(t.record.Skills)) {
			if !names[name] {
				remove = append(remove, name)
			}
		}
	}
	return write, remove, nil
}

func digests(k found) map[string]string {
	of := make(map[string]string, len(k.Files))
	for _, f := range k.Files {
		of[f.Path] = f.Digest
	}
	return of
}

// check says what write would do.
func (t *target) check(wanted []found, all bool, out *projected) error {
	if t.root == nil {
		for _, k := range wanted {
			out.Written = append(out.Written, k.Name)
		}
		return nil
	}
	write, remove, err := t.plan(wanted, all, out)
	for _, k := range write {
		out.Written = append(out.Written, k.Name)
	}
	out.Removed = append(out.Removed, remove...)
	return err
}

// write writes the skills that are not up to date. If anything in their place is not ours, nothing is written.
func (t *target) write(wanted []found, all bool, out *projected) error {
	write, remove, err := t.plan(wanted, all, out)
	if err != nil || len(out.Kept) > 0 || len(write)+len(remove) == 0 {
		return err
	}
	contents := make(map[string][][]byte)
	for _, k := range write { // all are read before any is written
		for i := range k.Files {
			data, err := k.folder.Content(k.Skill, &k.Files[i])
			if err != nil {
				return err
			}
			contents[k.Name] = append(contents[k.Name], data)
		}
	}
	for _, k := range write {
		was := t.record.Skills[k.Name]
		before := maps.Clone(was.Before)
		if before == nil {
			before = map[string]string{}
		}
		maps.Copy(before, was.Files)
		t.record.Skills[k.Name] = written{k.extension, digests(k), before}
	}
	if err := t.save(); err != nil {
		return err
	}
	for _, k := range write {
		if err := t.one(k, contents[k.Name]); err != nil {
			return err
		}
		out.Written = append(out.Written, k.Name)
	}
	for _, name := range remove {
		if err := t.drop(name, out); err != nil {
			return err
		}
	}
	return t.save()
}

// one writes the files of a skill, and removes those of the version before.
func (t *target) one(k found, contents [][]byte) error {
	for i, f := range k.Files {
		full := path.Join(k.Name, f.Path)
		if err := t.root.MkdirAll(path.Dir(full), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := t.replace(full, contents[i], mode); err != nil {
			return err
		}
	}
	w := t.record.Skills[k.Name]
	for at := range w.Before {
		if _, kept := w.Files[at]; !kept {
			if err := file.RemoveIn(t.root, path.Join(k.Name, at)); err != nil {
				return err
			}
		}
	}
	w.Before = nil
	t.record.Skills[k.Name] = w
	return nil
}

// drop removes a recorded skill, unless it is not ours any longer.
func (t *target) drop(name string, out *projected) error {
	why, _, err := t.compare(name)
	if err != nil {
		return err
	}
	if why != "" {
		out.Kept = append(out.Kept, name+": "+why)
		return nil
	}
	w := t.record.Skills[name]
	for _, at := range slices.Concat(slices.Collect(maps.Keys(w.Files)), slices.Collect(maps.Keys(w.Before))) {
		if err := file.RemoveIn(t.root, path.Join(name, at)); err != nil {
			return err
		}
	}
	delete(t.record.Skills, name)
	out.Removed = append(out.Removed, name)
	return nil
}

// undo removes the recorded skills of these names, all without names.
func (t *target) undo(names []string, out *projected) error {
	if t.root == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.record.Skills)) {
		w := t.record.Skills[name]
		if len(names) > 0 && !slices.Contains(names, name) && !slices.Contains(names, w.Extension+"/"+name) {
			continue
		}
		if err := t.drop(name, out); err != nil {
			return err
		}
	}
	return t.save()
}
