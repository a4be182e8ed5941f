package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// dataOf returns the directories with the data of an extension and of its servers, of a portable plugin its
// PLUGIN_DATA. They may be missing.
func dataOf(id string, portable bool) (dirs []string, err error) {
	state, err := exthost.DefaultStateDir()
	if portable || err != nil {
		return []string{filepath.Join(state, unit.Plugins, id)}, err
	}
	dirs = []string{filepath.Join(state, id)}
	entries, err := os.ReadDir(state)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		if server, of := strings.CutPrefix(e.Name(), id+"."); of && e.IsDir() && server != "" {
			dirs = append(dirs, filepath.Join(state, e.Name()))
		}
	}
	return dirs, err
}

// hasPluginData reports whether there is the data of a plugin of that name.
func hasPluginData(name string) bool {
	dirs, err := dataOf(name, true)
	if err != nil || agentplugin.ValidateName(name) != nil {
		return false
	}
	_, err = os.Lstat(dirs[0])
	return err == nil
}

// tellData prints that a new plugin gets the data of an earlier one of its name, which another person may have written.
func tellData(c *console.Console, name string, portable bool) error {
	dirs, err := dataOf(name, portable)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			c.Tell(console.Safe("  it gets the data that a plugin of that name has written: " + measure(dir) +
				"; exthost remove " + name + " --data deletes it"))
		}
	}
	return nil
}

// eraser deletes the data of extensions with the user's word.
type eraser struct {
	c    *console.Console
	dirs []string
}

// ask shows what would be deleted, and asks unless yes is set. portable are the ids of portable plugins.
func (r *eraser) ask(ctx context.Context, ids []string, portable map[string]bool, yes bool) error {
	for _, id := range ids {
		dirs, err := dataOf(id, portable[id])
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			info, err := os.Lstat(dir)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if !info.IsDir() {
				return &console.Error{
					Code: console.ExitFailed,
					Text: dir + " is no directory, and is not deleted",
					Hint: "look at it, and remove it yourself",
				}
			}
			r.c.Tell(console.Safe(fmt.Sprintf("deletes the data of %s: %s", id, measure(dir))))
			r.dirs = append(r.dirs, dir)
		}
	}
	if yes || len(r.dirs) == 0 {
		return nil
	}
	if !r.c.Interactive() {
		return &console.Error{
			Code: console.ExitDenied,
			Text: "this needs an answer, and there is no terminal; nothing was deleted",
			Hint: "exthost remove " + strings.Join(ids, " ") + " --data --yes",
		}
	}
	ok, err := r.c.Yes(ctx)
	if err == nil && !ok {
		err = &console.Error{Code: console.ExitDenied, Text: "not agreed to; nothing was deleted"}
	}
	return err
}

// erase deletes the data that was agreed to.
func (r *eraser) erase() error {
	for _, dir := range r.dirs {
		if err := os.RemoveAll(dir); err != nil {
			return &console.Error{
				Code:  console.ExitFailed,
				Text:  console.Safe("the data is not deleted as a whole: " + err.Error()),
				Hint:  "the same command again, once its program has ended",
				Cause: err,
			}
		}
		r.c.Tell(console.Safe("deleted " + dir))
	}
	return nil
}

// measure returns a directory with what is in it, for people.
func measure(dir string) string {
	files, bytes := 0, int64(0)
	// what cannot be read is not counted
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			files, bytes = files+1, bytes+info.Size()
		}
		return nil
	})
	return fmt.Sprintf("%s, with %s (%s)", dir, console.Plural(files, "file"), console.Bytes(bytes))
}
