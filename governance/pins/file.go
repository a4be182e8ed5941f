package pins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/internal/file"
)

// version is the format of the file. Version 1 has the same form, but holds only tools.
const version = 2

// lockFile holds the items of each kind by extension and name. An extension with an empty table was
// seen and had no items of that kind.
type lockFile struct {
	Version      int    `json:"version"`
	Tools        seenIn `json:"tools,omitempty"`
	Introduction seenIn `json:"introductions,omitempty"`
	Prompts      seenIn `json:"prompts,omitempty"`
	Resources    seenIn `json:"resources,omitempty"`
	Templates    seenIn `json:"resource_templates,omitempty"`
	Skills       seenIn `json:"skills,omitempty"`
	ListedSkills seenIn `json:"listed_skills,omitempty"`
}

type seenIn map[string]map[string]entry

// kinds returns the sections of the file by kind.
func (f *lockFile) kinds() map[Kind]*seenIn {
	return map[Kind]*seenIn{
		Tool:         &f.Tools,
		Introduction: &f.Introduction,
		Prompt:       &f.Prompts,
		Resource:     &f.Resources,
		Template:     &f.Templates,
		Skill:        &f.Skills,
		ListedSkill:  &f.ListedSkills,
	}
}

// maxFile bounds the file, in bytes.
const maxFile = 256 << 20

// load reads the file at path. A missing file is empty.
func load(path string) (table, error) {
	text, _, err := file.ReadRegular(path, maxFile+1, true)
	if errors.Is(err, fs.ErrNotExist) {
		return make(table), nil
	}
	if kind, ok := errors.AsType[file.NotRegular](err); ok {
		return nil, fmt.Errorf("pins: %s is %w", path, kind)
	}
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB", path, maxFile>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("pins: %w", err)
	}
	var f lockFile
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		line := 1 + bytes.Count(text[:offset(err, len(text))], []byte("\n"))
		return nil, fmt.Errorf("pins: %s:%d: %w; fix it or restore it, or move it away to pin everything again as it "+
			"is then: mv %s %s.broken",
			path, line, err, path, path)
	}
	if f.Version != version && f.Version != 1 {
		return nil, fmt.Errorf("pins: %s has version %d, this host writes %d", path, f.Version, version)
	}
	return f.table(), nil
}

func (f *lockFile) table() table {
	t := make(table)
	for kind, extensions := range f.kinds() {
		for extension, names := range *extensions {
			t.see(group{extension, kind})
			for name, e := range names {
				t[group{extension, kind}][name] = e
			}
		}
	}
	return t
}

// offset returns the position of err in a text of size bytes.
func offset(err error, size int) int {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return min(int(e.Offset), size)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return min(int(e.Offset), size)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return size
	}
	return 0
}

// store replaces the file at path atomically. The file is world-readable because every client sees
// the descriptors.
func (t table) store(path string) error {
	f := lockFile{Version: version}
	parts := f.kinds()
	for g, names := range t {
		part := parts[g.kind]
		if *part == nil {
			*part = make(seenIn)
		}
		(*part)[g.extension] = names
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&f); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if err := file.WriteAtomic(path, text.Bytes()); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	return nil
}
