package hosts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/daemon"
)

// choice is the host that the flags of a command select.
type choice struct {
	host   string // --host: a pid or a directory; "": the host of this directory
	config string // --config, absolute; "": none
}

type choiceKey struct{}

// WithFlags returns a context in which [Find] finds the host that the flags of c select.
func WithFlags(ctx context.Context, c *console.Console) context.Context {
	return context.WithValue(ctx, choiceKey{}, choice{c.Host, configFile(c)})
}

func choiceOf(ctx context.Context) choice {
	c, _ := ctx.Value(choiceKey{}).(choice)
	return c
}

// find looks among all hosts that this user may reach. state is the state directory that a host of this user and
// directory would use.
func (c choice) find(ctx context.Context, state string) (*Running, error) {
	all, others := daemon.Machine(ctx)
	for _, p := range c.places() {
		if fit := slices.DeleteFunc(slices.Clone(all), func(i daemon.Info) bool { return !p(i) }); len(fit) > 0 {
			r := running(fit[0]) // the oldest of the hosts that fit
			r.Apart = filepath.Dir(fit[0].Lock) != state
			return r, nil
		}
	}
	e := &console.Error{Code: console.ExitNotFound, Text: "no host is running in " + Here(), Hint: "exthost serve"}
	if last := daemon.LastKilled(state); last != nil && c.host == "" {
		killed := &Killed{*last}
		e.Cause, e.Text = killed, e.Text+": "+console.Safe(killed.Error())
		e.Hint = cmp.Or(console.Safe(last.Command), e.Hint)
	}
	if c.host != "" {
		e.Text, e.Hint = fmt.Sprintf("no host has the pid or the directory %.200q", c.host), "exthost ps"
	}
	switch n := console.Plural(len(all)+others, "host"); {
	case others > 0:
		e.Text += fmt.Sprintf("%s%s, %d of other users, which sudo exthost ps shows", Elsewhere, n, others)
	case len(all) > 0:
		e.Text += Elsewhere + n + ", which exthost ps shows"
	}
	return nil, e
}

// Elsewhere begins the part of the error of [Find] about hosts of other directories.
const Elsewhere = "; elsewhere on this machine: "

// Served reports whether a host of this user has run in this directory.
func Served() bool {
	state, err := exthost.DefaultStateDir()
	return err == nil && daemon.HasRun(state)
}

// places returns the conditions that select the host, the most specific one first.
func (c choice) places() []func(daemon.Info) bool {
	if pid, err := strconv.Atoi(c.host); err == nil {
		return []func(daemon.Info) bool{func(i daemon.Info) bool { return i.Seen == pid || i.PID == pid }}
	}
	dir, err := filepath.Abs(c.host) // "" is this directory
	if real, links := filepath.EvalSymlinks(dir); links == nil {
		dir = real
	}
	if err != nil {
		return nil
	}
	in := func(i daemon.Info) bool { return i.Dir == dir }
	if c.host != "" || c.config == "" {
		return []func(daemon.Info) bool{in}
	}
	return []func(daemon.Info) bool{
		func(i daemon.Info) bool { return in(i) && fileOf(i.Scope) == c.config },
		func(i daemon.Info) bool { return fileOf(i.Scope) == c.config },
	}
}

// fileOf returns the value of --config in a [Scope].
func fileOf(scope string) (file string) {
	_ = json.Unmarshal([]byte(scope), &[]any{&file})
	return file
}

// describe describes a host for people: its pid, directory and user, and what it serves.
func describe(i daemon.Info) string {
	return console.Safe(fmt.Sprintf("pid %d in %s, %s, %s", cmp.Or(i.Seen, i.PID),
		cmp.Or(i.Dir, "an unknown directory"), userName(i.UID), cmp.Or(i.Serves, "which serves nothing yet")))
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return "user " + u.Username
	}
	return fmt.Sprintf("uid %d", uid)
}

// NeedsFiles returns the error for a command that needs the host's files, if the host has other configuration files
// than a host of this user in this directory would have.
func (r *Running) NeedsFiles() error {
	name := strings.TrimPrefix(userName(r.Info.UID), "user ")
	return &console.Error{
		Code: console.ExitFailed,
		Text: "this needs the files of the host that runs: " + describe(r.Info),
		Hint: fmt.Sprintf("run the command in %s as %s, with the environment of the host: sudo -u %s …", r.Info.Dir,
			name, name),
	}
}
