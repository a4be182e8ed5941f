package connect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
)

// apply shows a change, asks, and writes it. It reports whether the change was written: with --dry-run it prints the
// report and returns false.
func (r *connecting) apply(ctx context.Context, s *settings, change change, o *outcome) (bool, error) {
	after, gone, err := change(s)
	if err = cmp.Or(err, ctx.Err()); err != nil { // planning a change of large settings takes a while
		return false, err
	}
	d := difference(s.data, after)
	o.Diff = d.text()
	if r.dryRun {
		return false, r.report(*o, console.Tilde(s.path)+consequence(s.exists, gone), strings.TrimSuffix(o.Diff, "\n"))
	}
	c := r.console
	if !r.yes || c.Output == "table" {
		c.Tell(console.Safe(s.client.Title + ": " + console.Tilde(s.path) + consequence(s.exists, gone)))
		fmt.Fprint(c.Err, d.painted(c))
	}
	switch {
	case r.yes:
	case !c.Interactive():
		return false, &console.Error{
			Code: console.ExitDenied,
			Text: "this needs an answer, and there is no terminal; nothing was written",
			Hint: r.again("--yes"),
		}
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

// consequence describes the creation or removal of the whole file; "" otherwise.
func consequence(exists, gone bool) string {
	switch {
	case gone:
		return ", which exthost connect made, goes"
	case !exists:
		return ", a new file"
	}
	return ""
}

// write writes a change that the user has agreed to. Running clients write their settings often, so write computes the
// change again from the current file. The server's entry must still be the one that the user saw.
func (r *connecting) write(ctx context.Context, s *settings, change change, o *outcome) error {
	made, unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	same, err := s.reread(o.Name)
	if err != nil {
		return err
	}
	after, gone, err := change(s)
	if err != nil {
		return err
	}
	if s.exists && bytes.Equal(after, s.data) && !gone { // another run of this command was faster
		o.Change = "none"
		return nil
	}
	if !same {
		return &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("%s: the server %s was changed meanwhile; nothing was written", console.Tilde(s.path),
				o.Name),
			Hint: r.again(""),
		}
	}
	k, err := recall(s.key(), o.Name)
	if err = cmp.Or(err, ctx.Err()); err != nil {
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

// reread reads the file again. same reports whether the server called name has not changed.
func (s *settings) reread(name string) (same bool, err error) {
	real := s.real
	before, err := s.server(name)
	if err == nil {
		err = s.read()
	}
	if err != nil {
		return false, err
	}
	now, err := s.server(name)
	if now == nil || before == nil {
		return s.real == real && now == before, err
	}
	return s.real == real && slices.Equal(now.Argv, before.Argv), err
}

// replace writes the file without the server, or removes the file. It removes the record of the server last: until then
// the file can be restored.
func (s *settings) replace(k *kept, after []byte, gone bool) error {
	if !gone {
		if err := s.store(after); err != nil {
			return err
		}
	} else if err := os.Remove(s.real); err != nil {
		return err
	} else if k.Dir != "" {
		_ = os.Remove(k.Dir) // fails if the directory has other files by now
	}
	return k.forget(s)
}

// store writes the file. A new file in the user's scope is private.
func (s *settings) store(after []byte) error {
	file.RemoveTemporary(s.real)
	write := file.WriteAtomic
	if !s.exists && s.scope == ofUser {
		write = file.WritePrivate
	}
	if err := write(s.real, after); err != nil {
		return &console.Error{
			Code:  console.ExitFailed,
			Text:  err.Error() + "; nothing was written",
			Hint:  "exthost connect " + s.client.ID + " --dry-run shows the change, to make where the file comes from",
			Cause: err,
		}
	}
	return nil
}

// disconnect removes the server of the directory from the settings.
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
			return &console.Error{
				Code: console.ExitNotFound,
				Text: fmt.Sprintf("%s has no server of %s that exthost connect wrote; nothing was changed",
					console.Tilde(s.path), console.Tilde(r.dir)),
				Hint: "exthost connect --list",
			}
		}
		return console.Usagef(r.again("--name="+names[0]), "%s has several servers of %s: %s", console.Tilde(s.path),
			console.Tilde(r.dir), strings.Join(names, ", "))
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
	return r.report(o, fmt.Sprintf("%s is not connected to %s any more", s.client.Title, console.Tilde(r.dir)),
		fmt.Sprintf("  settings: no server %s in %s", name, console.Tilde(s.path)))
}
