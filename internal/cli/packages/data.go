package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// others returns the other directories whose lock files name a plugin, which have the same data.
func others(cfg *config.Config, id string) (dirs []string, err error) {
	u, err := hosts.PackageUses()
	if err != nil {
		return nil, err
	}
	all, err := u.Of(id)
	return slices.DeleteFunc(all, func(dir string) bool { return dir == cfg.Project.Dir }), err
}

// dataOf returns the directory with the data of an extension.
func dataOf(id string, plugin bool) (string, error) {
	state, err := exthost.DefaultStateDir()
	if plugin {
		return filepath.Join(state, unit.Plugins, id), err
	}
	return filepath.Join(state, id), err
}

// hasPluginData reports whether there is the data of a plugin of that name.
func hasPluginData(name string) bool {
	dir, err := dataOf(name, true)
	if err != nil || agentplugin.ValidateName(name) != nil {
		return false
	}
	_, err = os.Lstat(dir)
	return err == nil
}

// eraser deletes the data of extensions with the user's word.
type eraser struct {
	c    *console.Console
	dirs []string
}

// ask shows what would be deleted, and asks unless yes is set.
func (r *eraser) ask(ctx context.Context, cfg *config.Config, ids []string, plugins map[string]bool, yes bool) error {
	for _, id := range ids {
		dir, err := dataOf(id, plugins[id])
		if err != nil {
			return err
		}
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
		line := fmt.Sprintf("deletes the data of %s: %s", id, measure(dir))
		if plugins[id] {
			also, err := others(cfg, id)
			if err != nil {
				return err
			}
			if len(also) > 0 {
				line += ", which is also the plugin's in " + consent.Some(also)
			}
		}
		r.c.Tell(console.Safe(line))
		r.dirs = append(r.dirs, dir)
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
