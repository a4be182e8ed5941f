package lock

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text"
)

// ErrBusy is returned by [Edit] while another program changes the lock file.
var ErrBusy = errors.New("another program is changing it")

// Edit reads the lock file and keeps other programs from changing it until unlock. It waits a few seconds for
// them.
func Edit(dir string) (f *File, unlock func(), err error) {
	unlock, err = file.LockDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", filepath.Join(dir, FileName), ErrBusy, err)
	}
	if f, err = Read(dir); err != nil {
		unlock()
		return nil, nil, err
	}
	return f, unlock, nil
}

// Write replaces the lock file of dir. Blocks are sorted by id and independent of each other, so that git can
// merge them. Write fails if the result could not be read again, for instance because of an odd tool name.
func (f *File) Write(dir string) error {
	path := filepath.Join(dir, FileName)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file, and is not replaced", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := f.Text()
	if _, diags := parse(path, text); len(diags) > 0 {
		return fmt.Errorf("%s stays as it is, because what it would become cannot be read: %s", path, diags[0].Message)
	}
	return file.WriteAtomic(path, text)
}

// Text returns the file's content.
func (f *File) Text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What the extensions of this directory are. exthost trust --lock, add, upgrade and remove "+
		"write it; commit it.\nversion = %d\n", version)
	if f.Configuration != "" {
		fmt.Fprintf(&b, "configuration = %s\n", text.Literal(f.Configuration))
	}
	for _, id := range slices.Sorted(maps.Keys(f.Extensions)) {
		e := f.Extensions[id]
		if strings.Contains(id, ".") { // the name of a plugin
			id = text.Literal(id)
		}
		fmt.Fprintf(&b, "\n[extensions.%s]\n", id)
		line := func(key, value string) {
			if value != "" {
				fmt.Fprintf(&b, "%s = %s\n", key, text.Literal(value))
			}
		}
		line("source", e.Source)
		line("program", e.Program)
		line("version", e.Version)
		line("tree", e.Tree)
		line("manifest", e.Manifest)
		line("files", e.Files)
		line("command", e.Command)
		if len(e.Scripts) > 0 {
			fmt.Fprintf(&b, "scripts = %s\n", text.LiteralList(e.Scripts))
		}
		line("approved", e.Approved)
		line("approved_by", e.ApprovedBy)
		if e.Tools != nil {
			fmt.Fprintf(&b, "\n[extensions.%s.tools]\n", id)
			for _, name := range slices.Sorted(maps.Keys(e.Tools)) {
				fmt.Fprintf(&b, "%s = %s\n", text.Literal(name), text.Literal(e.Tools[name]))
			}
		}
		for _, p := range e.Parts {
			fmt.Fprintf(&b, "\n[[extensions.%s.parts]]\n", id)
			line("name", p.Name)
			line("version", p.Version)
			line("url", p.URL)
			line("integrity", p.Integrity)
			line("path", p.Path)
		}
	}
	return b.Bytes()
}

// Sum returns the SHA-256 of data in the form of [Entry.Manifest].
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func isSum(s string) bool {
	sum, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	return err == nil && strings.HasPrefix(s, "sha256:") && len(sum) == sha256.Size
}

func isTree(s string) bool {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "h1:"))
	return err == nil && strings.HasPrefix(s, "h1:") && len(sum) == sha256.Size
}

// conflict returns the offset of the first git conflict marker, or -1.
func conflict(text string) (offset int) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "<<<<<<<") || strings.HasPrefix(line, "=======") ||
			strings.HasPrefix(line, ">>>>>>>") {
			return offset
		}
		offset += len(line)
	}
	return -1
}
