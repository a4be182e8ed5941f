package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// StatusOnDisk is [Running.Status] with the errors of the configuration on disk, and with a verdict that considers them
// and the broken manifests on disk. The host itself knows them only after it has tried to reload. unloaded is what
// [Running.Unloaded] returns.
func (r *Running) StatusOnDisk(ctx context.Context, c *console.Console,
) (s status.Status, unloaded []string, err error) {
	if s, err = r.Status(ctx); err != nil {
		return s, nil, err
	}
	if len(BrokenConfig(s)) == 0 {
		s.Diagnostics = append(r.broken(c), s.Diagnostics...)
	}
	unloaded, broken := r.unread(ctx, c, s)
	judged := s
	judged.Diagnostics = append(broken, s.Diagnostics...)
	s.Verdict = judged.Judge(time.Now())
	return s, unloaded, nil
}

// WarnBroken warns on stderr that the configuration on disk is invalid, for a command that does not read it.
func (r *Running) WarnBroken(c *console.Console) {
	if diags := r.broken(c); diags != nil {
		sayBroken(c, diags)
	}
}

// broken returns the errors of the configuration on disk; nil if it is valid, or if the host has other files or flags
// than c.
func (r *Running) broken(c *console.Console) []protocol.Diagnostic {
	if r.Apart || !sameFlags(c, r.Info.Scope) {
		return nil
	}
	_, err := read(c) // sameFlags has excluded the flags that can be wrong
	refused, _ := errors.AsType[config.Refused](err)
	return onlyErrors(refused)
}

func onlyErrors(diags []protocol.Diagnostic) []protocol.Diagnostic {
	return slices.DeleteFunc(slices.Clone(diags),
		func(d protocol.Diagnostic) bool { return d.Level != protocol.LevelError })
}

// sayBroken warns on stderr that the configuration on disk is invalid, so that the host still runs with the previous
// one.
func sayBroken(c *console.Console, errs []protocol.Diagnostic) {
	text := console.Nearby(errs[0]).String()
	if more := len(errs) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more, which exthost validate shows)", more)
	}
	c.Warn("the configuration on disk cannot be used, and the one before it stays in force; fix it, then exthost "+
		"reload: %s", console.Safe(text))
}

// OnDisk returns the status of the extensions on the search paths, with the states of the running host. If the
// configuration is invalid, it is the status of the running host alone.
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

// search returns the status of the extensions on the search paths.
func search(ctx context.Context, c *console.Console, cfg *config.Config) (status.Status, error) {
	h, err := Look(ctx, c, cfg)
	if err != nil {
		return status.Status{}, err
	}
	defer h.Close()
	return h.Status(), nil
}

// Overlay returns disk with the states that extensions and policies have in the running host. The reason of an
// extension that the host has not loaded says so.
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
		} else if p.Builtin == "audit_log" { // the host that has read the disk opens no audit log
			disk.Policies = append(disk.Policies, p)
		}
	}
	// The host may have requirements that this environment lacks.
	disk.Diagnostics = slices.DeleteFunc(disk.Diagnostics, func(d protocol.Diagnostic) bool {
		return d.Code == discovery.CodeRequirement &&
			slices.ContainsFunc(disk.Extensions,
				func(x status.Extension) bool { return x.ID == d.Extension && !x.LeftOut() })
	})
	return disk
}

// Unloaded returns what is on the search paths but not loaded by the host r, whose status is running: the ids of
// extensions, and the names of files too broken to have an id. It returns nil if the host has other files or flags than
// c, or if the configuration on disk is invalid.
func (r *Running) Unloaded(ctx context.Context, c *console.Console, running status.Status) []string {
	names, _ := r.unread(ctx, c, running)
	return names
}

// unread is [Running.Unloaded], and returns the errors of files that the host has not read yet.
func (r *Running) unread(ctx context.Context, c *console.Console, running status.Status,
) (names []string, broken []protocol.Diagnostic) {
	if r.Apart {
		return nil, nil
	}
	cfg, err := readValid(c)
	if err != nil || cfg == nil || r.Info.Scope != Scope(c, cfg) {
		return nil, nil
	}
	disk, err := search(ctx, c, cfg)
	if err != nil {
		return nil, nil
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
	for _, d := range disk.Diagnostics {
		if d.Code == string(protocol.ManifestInvalid) && d.Level == protocol.LevelError &&
			!slices.Contains(running.Diagnostics, d) {
			broken = append(broken, d)
		}
	}
	return names, broken
}

// UnloadedText describes the result of [Running.Unloaded].
func UnloadedText(names []string) string {
	return "not loaded by the running host: " + strings.Join(names, ", ") + "; exthost reload"
}
