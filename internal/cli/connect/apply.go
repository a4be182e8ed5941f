package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/atomicfile"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/dirlock"
)

// apply shows a change, asks, and writes it. It reports whether the change is written; without an error
// it is not with --dry-run, whose report apply prints.
func (r *connecting) apply(ctx context.Context, s *settings, change change, o *outcome) (bool, error) {
	after, gone, err := change(s)
	if err != nil {
		return false, err
	}
	d := difference(s.data, after)
	o.Diff = d.text()
	if r.dryRun {
		return false, r.report(*o, tilde(s.path)+consequence(s.exists, gone), strings.TrimSuffix(o.Diff, "\n"))
	}
	c := r.console
	if !r.yes || c.Output == "table" {
		c.Tell(console.Safe(s.client.Title + ": " + tilde(s.path) + consequence(s.exists, gone)))
		fmt.Fprint(c.Err, d.painted(c))
	}
	switch {
	case r.yes:
	case !c.Interactive():
		return false, &console.Error{Code: console.ExitDenied, Text: "this needs an answer, and there is no terminal; nothing was written", Hint: r.again("--yes")}
	default:
		yes, err := c.Yes(ctx)
		if err != nil {
			return false, err
		}
		if !yes {
			return false, &console.Error{Code: console.ExitDenied, Text: "not agreed to; nothing was written"}
		}
	}
	if err := r.write(ctx, s, change, o); err != nil {
		return false, err
	}
	o.Written = true
	return true, nil
}

// consequence says what becomes of a file that is made or goes.
func consequence(exists, gone bool) string {
	switch {
	case gone:
		return ", which exthost connect made, goes"
	case !exists:
		return ", a new file"
	}
	return ""
}

// write writes a change that was agreed to. Running clients write their settings often, so the change is
// made anew, of the file as it is by now. Only the server must still be what it was.
func (r *connecting) write(ctx context.Context, s *settings, change change, o *outcome) (err error) {
	dir, made := filepath.Dir(s.real), ""
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		made = dir
	}
	mode := fs.FileMode(0o700)
	if s.scope == ofProject {
		mode = 0o755
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	unlock, err := dirlock.Lock(dir)
	if err != nil {
		return fmt.Errorf("%s is locked: %w", tilde(dir), err)
	}
	defer unlock()
	if s.client.Locks && s.scope == ofUser {
		unlock, err := lock(ctx, s.path+".lock")
		if err != nil {
			return err
		}
		defer unlock()
	}
	real := s.real
	before, err := s.server(o.Name)
	if err != nil {
		return err
	}
	if err := s.read(); err != nil {
		return err
	}
	now, err := s.server(o.Name)
	if err != nil {
		return err
	}
	after, gone, err := change(s)
	if err != nil {
		return err
	}
	if s.exists && bytes.Equal(after, s.data) && !gone { // another run was as fast
		o.Change = "none"
		return nil
	}
	if s.real != real || (now == nil) != (before == nil) || now != nil && !equal(now.Argv, before.Argv) {
		return &console.Error{Code: console.ExitFailed, Text: fmt.Sprintf("%s: the server %s was changed meanwhile; nothing was written", tilde(s.path), o.Name), Hint: r.again("")}
	}
	k, err := recall(s.key(), o.Name)
	if err != nil {
		return err
	}
	if s.exists {
		o.Backup = k.backup()
	}
	if o.Change == "removed" {
		return s.replace(k, after, gone)
	}
	if o.Change == "added" {
		k.Dir = made
	}
	if err := k.keep(s, after, o.Change == "added"); err != nil {
		return fmt.Errorf("no backup could be made, and nothing was written: %w", err)
	}
	return s.store(after)
}

// replace writes the file without the server, or removes the file.
func (s *settings) replace(k *kept, after []byte, gone bool) error {
	removed := *k
	if err := k.forget(s); err != nil {
		return fmt.Errorf("no backup could be made, and nothing was written: %w", err)
	}
	if !gone {
		return s.store(after)
	}
	if err := os.Remove(s.real); err != nil {
		return err
	}
	if removed.Dir != "" {
		_ = os.Remove(removed.Dir) // it stays if there is something else in it by now
	}
	return nil
}

// store writes the file. A new one of the user is private.
func (s *settings) store(after []byte) error {
	atomicfile.Sweep(s.real)
	write := atomicfile.Write
	if !s.exists && s.scope == ofUser {
		write = atomicfile.WritePrivate
	}
	if err := write(s.real, after); err != nil {
		return &console.Error{Code: console.ExitFailed, Text: err.Error() + "; nothing was written", Hint: "exthost connect " + s.client.ID + " --dry-run shows the change, to make where the file comes from", Cause: err}
	}
	return nil
}

// How long the lock of a client counts, how long it is waited for, and how often it is tried.
const (
	lockAge      = 10 * time.Second
	lockPatience = 5 * time.Second
	lockTick     = 20 * time.Millisecond
)

// lock takes the lock that a client holds while it writes its settings, which is a directory.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	tick := time.NewTicker(lockTick)
	defer tick.Stop()
	for began := time.Now(); ; {
		err := os.Mkdir(path, 0o700)
		if err == nil {
			return func() { _ = os.Remove(path) }, nil // it gets old otherwise
		}
		info, statErr := os.Lstat(path)
		switch {
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		case statErr == nil && time.Since(info.ModTime()) > lockAge:
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		case time.Since(began) > lockPatience:
			return nil, &console.Error{Code: console.ExitFailed, Text: "the client is writing its settings: it holds " + tilde(path), Hint: "try it again"}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// disconnect takes the server of the directory out.
func (r *connecting) disconnect(ctx context.Context, s *settings) error {
	if err := s.read(); err != nil {
		return err
	}
	servers, err := s.servers()
	if err != nil {
		return err
	}
	mine := r.mine(servers)
	if len(mine) != 1 {
		var names []string
		for _, e := range mine {
			names = append(names, e.Name)
		}
		if names == nil {
			return &console.Error{Code: console.ExitNotFound, Text: fmt.Sprintf("%s has no server of %s that exthost connect wrote; nothing was changed", tilde(s.path), tilde(r.dir)), Hint: "exthost connect --list"}
		}
		return console.Usagef(r.again("--name="+names[0]), "%s has several servers of %s: %s", tilde(s.path), tilde(r.dir), strings.Join(names, ", "))
	}
	name := mine[0].Name
	k, err := recall(s.key(), name)
	if err != nil {
		return err
	}
	o := outcome{Client: s.client.ID, File: s.path, Name: name, Dir: r.dir, Change: "removed"}
	if done, err := r.apply(ctx, s, s.removing(name, k), &o); err != nil || !done {
		return err
	}
	return r.report(o, fmt.Sprintf("%s is not connected to %s any more", s.client.Title, tilde(r.dir)), fmt.Sprintf("  settings: no server %s in %s", name, tilde(s.path)))
}
