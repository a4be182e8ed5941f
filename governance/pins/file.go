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

	"github.com/exthost/exthost/internal/atomicfile"
	"github.com/exthost/exthost/internal/regular"
)

// version is the format of the file.
const version = 1

type lockFile struct {
	Version int   `json:"version"`
	Tools   table `json:"tools"` // by extension and tool
}

// maxFile bounds the file, in bytes.
const maxFile = 256 << 20

// load reads the file at path. A missing file is empty.
func load(path string) (table, error) {
	text, _, err := regular.Read(path, maxFile+1, true)
	if errors.Is(err, fs.ErrNotExist) {
		return make(table), nil
	}
	if kind, ok := errors.AsType[regular.NotRegular](err); ok {
		return nil, fmt.Errorf("pins: %s is %w", path, kind)
	}
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB", path, maxFile>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("pins: %w", err)
	}
	f := lockFile{Tools: make(table)}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		line := 1 + bytes.Count(text[:offset(err, len(text))], []byte("\n"))
		return nil, fmt.Errorf("pins: %s:%d: %w; fix it, or remove the file to pin all tools again", path, line, err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("pins: %s has version %d, this host writes %d", path, f.Version, version)
	}
	for _, tools := range f.Tools {
		for tool, e := range tools {
			e.Pinned = e.Pinned.canonical()
			if e.Held != nil {
				*e.Held = e.Held.canonical()
			}
			tools[tool] = e
		}
	}
	return f.Tools, nil
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

// store replaces the file atomically. It is world-readable because every client sees the
// descriptors.
func store(path string, tools table) (err error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(lockFile{version, tools}); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	if err := atomicfile.Write(path, text.Bytes()); err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	return nil
}
