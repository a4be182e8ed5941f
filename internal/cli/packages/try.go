package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// try starts the extension once, lists its tools and locks their hashes. If this machine lacks a requirement, it only
// says so. yes accepts changed tools without a question.
func (d *draft) try(ctx context.Context, yes bool) (err error) {
	h, err := hosts.Open(ctx, d.c, d.stated,
		exthost.Options{
			Start: func(id string) bool { return id == d.id },
			Mode:  exthost.Mode{Inspect: true, StartLazy: true},
		})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	s := h.Status()
	n := slices.IndexFunc(s.Extensions, func(x status.Extension) bool { return x.ID == d.id })
	if n < 0 {
		return &console.Error{
			Code: console.ExitFailed,
			Text: d.id + " was not found, so that nothing is left of it",
			Hint: "exthost doctor; extensions.disabled, extensions.allowlist and another extension of that id are " +
				"the usual reasons",
		}
	}
	switch x := s.Extensions[n]; x.State {
	case string(supervisor.Ready):
		d.c.Tell("it offers:")
		hashes := map[string]string{}
		for _, e := range h.Tools().Entries() {
			if e.Extension == d.id {
				d.c.Tell(console.Safe(fmt.Sprintf("  %s  %s", e.Name,
					console.Cut(hosts.Description(e.Description, d.id), 100))))
				hashes[d.id+"/"+e.Tool] = policies.HashTool(e.Raw)
			}
		}
		if err := d.acceptTools(ctx, h, yes); err != nil {
			return err
		}
		return d.lockTools(hashes)
	case status.StateSkipped, status.StateDisabled:
		d.c.Tell(console.Safe("not started: " + x.Reason + strings.TrimSuffix("; "+hosts.Remedy(s, x), "; ")))
		return nil
	default:
		left := ", and nothing is left of it"
		if d.pkg == nil { // the extension existed before
			left = ""
		}
		lines := append([]string{fmt.Sprintf("%s did not start%s: %s", d.id, left, cmp.Or(x.Reason, x.State))},
			console.LastWords(hosts.Evidence(x))...)
		return &console.Error{
			Code: console.ExitExtension,
			Text: console.SafeText(strings.Join(lines, "\n")),
			Hint: "arguments of the program follow --, variables are named with --env",
		}
	}
}

// acceptTools shows how the tools differ from those that the user accepted last, and accepts them after a yes.
func (d *draft) acceptTools(ctx context.Context, h *exthost.Host, yes bool) error {
	var digests []string
	for _, p := range h.Admin().Pins() {
		if p.Extension == d.id && p.Digest != "" {
			if digests == nil {
				d.c.Tell("what it says of itself differs from what you accepted before:")
			}
			digests = append(digests, p.Digest)
			for line := range strings.Lines(p.Diff) {
				d.c.Tell("  " + console.Safe(strings.TrimSpace(line)))
			}
		}
	}
	if digests == nil {
		return nil
	}
	if !yes && !d.c.Interactive() {
		return &console.Error{
			Code: console.ExitDenied,
			Text: "this needs an answer, and there is no terminal; nothing was changed",
			Hint: "exthost upgrade " + d.id + " --yes",
		}
	}
	if !yes {
		if yes, err := d.c.Yes(ctx); err != nil {
			return err
		} else if !yes {
			return &console.Error{Code: console.ExitDenied, Text: "not agreed to; nothing was changed"}
		}
	}
	return h.Admin().AcceptTools(exthost.Selection{Extension: d.id, Digests: digests}, hosts.Operator())
}

// fetch downloads the package of one lock file entry into the store.
func fetch(ctx context.Context, c *console.Console, i *packages.Installer, id string, e lock.Entry) error {
	defer c.Progress(func() string { return "fetching " + e.Source })()
	aside, err := i.Fetch(ctx, e)
	tellLeft(c, "set aside, because the package has others or none in their place", aside)
	if err != nil {
		return &console.Error{
			Code:  console.ExitFailed,
			Text:  console.Safe(id + ": " + err.Error()),
			Hint:  "ask who wrote exthost.lock; exthost upgrade " + id + " takes what there is now",
			Cause: err,
		}
	}
	return nil
}
