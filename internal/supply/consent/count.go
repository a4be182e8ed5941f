package consent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Limits of the files of a plugin, all of which are compared: those of a package, see package store.
const (
	maxPluginFiles = 50_000 // files and directories
	maxPluginBytes = 1 << 30
)

var errPluginTooLarge = fmt.Errorf("a plugin is compared as a whole, and this one has over %d files and folders, or "+
	"over %d MiB, with those that its links lead to", maxPluginFiles, maxPluginBytes>>20)

// count counts the files of a plugin before any of them is read: a folder that holds too many is refused at once,
// however many it holds and wherever its links lead.
type count struct {
	files int
	bytes int64
	seen  map[string]bool // directories that were counted, with links resolved
}

// add counts a directory and what is in it. real has no links.
func (c *count) add(real string) error {
	if c.seen[real] {
		return nil
	}
	c.seen[real] = true
	f, err := os.Open(real)
	if err != nil {
		return ignoreMissing(err)
	}
	entries, err := f.ReadDir(maxPluginFiles - c.files + 1)
	f.Close() // read only
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.files += len(entries); c.files > maxPluginFiles {
		return errPluginTooLarge
	}
	for _, e := range entries {
		if err := c.entry(filepath.Join(real, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// entry counts what is in an entry, or behind it if it is a link.
func (c *count) entry(path string, e fs.DirEntry) error {
	if e.IsDir() {
		if history(path) {
			return nil
		}
		return c.add(path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ignoreMissing(err)
	case info.IsDir():
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return ignoreMissing(err)
		}
		return c.add(real)
	case info.Mode().IsRegular():
		if c.bytes += info.Size(); c.bytes > maxPluginBytes {
			return errPluginTooLarge
		}
	}
	return nil
}
