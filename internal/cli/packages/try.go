package packages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/lockfile"
	"github.com/exthost/exthost/internal/packages"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// try starts the extension once and lists its tools. One that lacks something of this machine is
// not started, and is told.
func (d *draft) try(ctx context.Context) error {
	h, err := hosts.Open(ctx, d.c, d.stated, exthost.Options{Start: func(id string) bool { return id == d.id }, Mode: exthost.Mode{Inspect: true, StartLazy: true}})
	if err != nil {
		return err
	}
	s := h.Status()
	offers := h.Tools().Entries()
	if err := h.Close(); err != nil {
		return err
	}
	n := slices.IndexFunc(s.Extensions, func(x status.Extension) bool { return x.ID == d.id })
	if n < 0 {
		return &console.Error{Code: console.ExitFailed, Text: d.id + " was not found, so that nothing is left of it", Hint: "exthost doctor; extensions.disabled, extensions.allowlist and another extension of that id are the usual reasons"}
	}
	switch x := s.Extensions[n]; x.State {
	case string(supervisor.Ready):
		d.c.Tell("it offers:")
		for _, e := range offers {
			if e.Extension == d.id {
				d.c.Tell(console.Safe(fmt.Sprintf("  %s  %s", e.Name, console.Cut(hosts.Description(e.Description, d.id), 100))))
			}
		}
		return nil
	case status.StateSkipped:
		d.c.Tell(console.Safe("not started: " + x.Reason + strings.TrimSuffix("; "+hosts.Remedy(s, x), "; ")))
		return nil
	default:
		lines := append([]string{fmt.Sprintf("%s did not start, and nothing is left of it: %s", d.id, cmp.Or(x.Reason, x.State))}, console.LastWords(hosts.Evidence(x))...)
		return &console.Error{Code: console.ExitExtension, Text: console.SafeText(strings.Join(lines, "\n")), Hint: "arguments of the program follow --, variables are named with --env"}
	}
}

// fetch puts into the store what one entry of the lock file names.
func fetch(ctx context.Context, c *console.Console, i *packages.Installer, id string, e lockfile.Entry) error {
	defer c.Progress(func() string { return "fetching " + e.Source })()
	if err := i.Fetch(ctx, e); err != nil {
		return &console.Error{Code: console.ExitFailed, Text: console.Safe(id + ": " + err.Error()), Hint: "ask who wrote exthost.lock; exthost upgrade " + id + " takes what there is now", Cause: err}
	}
	return nil
}
