package hosts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// StatusOnDisk is Status. The diagnostics of a host that has not tried to reload since its
// configuration broke lack the reasons, and StatusOnDisk adds them.
func (r *Running) StatusOnDisk(ctx context.Context, c *console.Console) (status.Status, error) {
	s, err := r.Status(ctx)
	if err == nil && len(BrokenConfig(s)) == 0 {
		s.Diagnostics = append(r.broken(c), s.Diagnostics...)
	}
	return s, err
}

// WarnBroken prints on stderr that the configuration on disk cannot be used, for a command of
// r that does not read it.
func (r *Running) WarnBroken(c *console.Console) {
	if diags := r.broken(c); diags != nil {
		sayBroken(c, diags)
	}
}

// broken returns the errors of the configuration on disk; nil while it can be used, and for a
// host with other flags than those of c.
func (r *Running) broken(c *console.Console) []protocol.Diagnostic {
	if !sameFlags(c, r.Info.Scope) {
		return nil
	}
	cfg, _, diags, _ := read(c) // sameFlags has excluded the flags that can be wrong
	if cfg != nil {
		return nil
	}
	return onlyErrors(diags)
}

func onlyErrors(diags []protocol.Diagnostic) []protocol.Diagnostic {
	return slices.DeleteFunc(slices.Clone(diags),
		func(d protocol.Diagnostic) bool { return d.Level != protocol.LevelError })
}

// sayBroken prints on stderr why the configuration on disk cannot be used, beside a host that
// runs with the one before.
func sayBroken(c *console.Console, errs []protocol.Diagnostic) {
	text := console.Nearby(errs[0]).String()
	if more := len(errs) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more, which exthost validate shows)", more)
	}
	c.Warn("the configuration on disk cannot be used, and the one before it stays in force; fix it, then exthost "+
		"reload: %s", console.Safe(text))
}

// OnDisk is the status of what is on the search paths, with the states of the running host;
// with a configuration that cannot be used, the status of the running host alone.
func OnDisk(ctx context.Context, c *console.Console) (status.Status, error) {
	r, cfg, broken := Reach(ctx, c)
	if broken != nil && r == nil {
		return status.Status{}, broken
	}
	var running status.Status
	if r != nil {
		var err error
		if running, err = r.Status(ctx); err != nil || broken != nil {
			return running, err
		}
	}
	disk, err := search(ctx, c, cfg)
	if err != nil || r == nil {
		return disk, err
	}
	return Overlay(disk, running), nil
}

// search is the status of what is on the search paths.
func search(ctx context.Context, c *console.Console, cfg *config.Config) (status.Status, error) {
	h, err := Look(ctx, c, cfg)
	if err != nil {
		return status.Status{}, err
	}
	defer h.Close()
	return h.Status(), nil
}

// Overlay is the status of what is on disk, in which the extensions and policies of the running
// host have their states there, and all other extensions say that the host has not loaded them.
func Overlay(disk, running status.Status) status.Status {
	runs := map[string]status.Extension{}
	for _, x := range running.Extensions {
		runs[x.ID] = x
	}
	for i, x := range disk.Extensions {
		if on, ok := runs[x.ID]; ok {
			disk.Extensions[i] = on
		} else if x.State == string(supervisor.Idle) {
			disk.Extensions[i].Reason = "not loaded by the running host: exthost reload"
		}
		delete(runs, x.ID)
	}
	for _, x := range running.Extensions {
		if _, gone := runs[x.ID]; gone && x.State != status.StateDisabled {
			x.Reason = "no longer on disk: exthost reload removes it"
			disk.Extensions = append(disk.Extensions, x)
		}
	}
	for _, p := range running.Policies {
		if i := slices.IndexFunc(disk.Policies, func(on status.Policy) bool { return on.Name == p.Name }); i >= 0 {
			disk.Policies[i] = p
		} else if p.Builtin == "audit_log" { // a command that only looks opens none
			disk.Policies = append(disk.Policies, p)
		}
	}
	// the host may have what this environment lacks
	disk.Diagnostics = slices.DeleteFunc(disk.Diagnostics, func(d protocol.Diagnostic) bool {
		return d.Code == discovery.CodeRequirement &&
			slices.ContainsFunc(disk.Extensions,
				func(x status.Extension) bool { return x.ID == d.Extension && !x.LeftOut() })
	})
	return disk
}

// Unloaded names what is on the search paths and r, whose status is running, has not loaded:
// extensions by their ids, and files that cannot become one. It is nil for a host with other
// flags than those of c, and while the configuration on disk cannot be used.
func (r *Running) Unloaded(ctx context.Context, c *console.Console, running status.Status) (names []string) {
	cfg, _, _, err := read(c)
	if err != nil || cfg == nil || r.Info.Scope != Scope(c, cfg) {
		return nil
	}
	disk, err := search(ctx, c, cfg)
	if err != nil {
		return nil
	}
	for _, x := range disk.Extensions {
		if x.State != status.StateDisabled &&
			!slices.ContainsFunc(running.Extensions, func(on status.Extension) bool { return on.ID == x.ID }) {
			names = append(names, x.ID)
		}
	}
	for _, file := range BrokenFiles(disk) {
		if !slices.Contains(BrokenFiles(running), file) {
			names = append(names, file)
		}
	}
	return names
}

// UnloadedText says what [Running.Unloaded] names.
func UnloadedText(names []string) string {
	return "not loaded by the running host: " + strings.Join(names, ", ") + "; exthost reload"
}
