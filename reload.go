package exthost

import (
	"cmp"
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Change is what a reload does, or would do. Extensions are named by id.
type Change struct {
	Added   []string              `json:"added"`
	Changed []string              `json:"changed"` // replaced by their new build
	Removed []string              `json:"removed"`
	Kept    []KeptBuild           `json:"kept"`    // whose new build cannot be used: the one before goes on
	Retried []string              `json:"retried"` // as before, and started again because they had failed
	Restart []string              `json:"restart"` // sections of the configuration that count from the host's next start
	Failed  []protocol.Diagnostic `json:"failed"`  // of what is new or tried again, and did not start

	Destinations []string `json:"destinations"` // names of those added, changed or removed
	Policies     []string `json:"policies"`     // names of those added, changed or removed
	Files        []string `json:"files"`        // in which what is changed differs, as ID/NAME
}

// KeptBuild is an extension that goes on as it was.
type KeptBuild struct {
	ID       string             `json:"id"`
	Reason   string             `json:"reason"`             // a line for each, where several are known
	Evidence *protocol.Evidence `json:"evidence,omitempty"` // what its new build left; nil when it was not started
}

// Empty reports whether nothing changes.
func (c *Change) Empty() bool {
	return len(c.Added)+len(c.Changed)+len(c.Removed)+len(c.Kept)+len(c.Retried)+len(c.Restart)+len(c.Policies)+len(c.Destinations) == 0
}

// Plan returns what [Admin.Reload] would do now, as far as it can be known
// without starting anything.
func (a Admin) Plan(ctx context.Context) (*Change, error) {
	a.h.reloading.Lock()
	defer a.h.reloading.Unlock()
	_, c, err := a.h.plan(ctx)
	return c, err
}

// Reload brings the host to what its configuration and the search paths hold now.
// What is new or changed starts beside what runs; then calls go to it; then what
// is gone ends, once its calls have, within its drain_timeout. An extension whose
// new build is broken, lacks something or does not start goes on as it was; with
// reload = "stop_first" it ends before its new build starts. One that had failed
// is started again. A configuration that cannot be used and a policy that does not
// start are errors, and change nothing; nor does an end of ctx or of the host
// meanwhile.
func (a Admin) Reload(ctx context.Context) (*Change, error) {
	began := time.Now()
	change, err := a.h.reload(ctx)
	a.h.reloaded(Reloaded{change, err, time.Since(began)})
	return change, err
}

// Reloaded is the outcome of a reload, whoever asked for it.
type Reloaded struct {
	Change *Change       // nil when Err is not
	Err    error         // why everything goes on as it was
	Took   time.Duration // since it was asked for, or since the first sign that something had changed
}

// reloaded tells everybody of the outcome of a reload.
func (h *Host) reloaded(r Reloaded) {
	h.feed.reloadEvent(r.Change, r.Err)
	if r.Err == nil {
		h.watch.set(func(s *WatchStatus) { s.LastProblem = problem(r.Change, nil) })
		select {
		case h.watch.applied <- struct{}{}:
		default: // it will look where things are now anyway
		}
	}
	if h.opts.OnReload != nil {
		h.opts.OnReload(r)
	}
}

func (h *Host) reload(ctx context.Context) (*Change, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	if err := h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := h.plan(ctx)
	if err != nil {
		return nil, err
	}
	h.seen = next.sum()
	if err := h.apply(ctx, next, change); err != nil {
		return nil, err
	}
	h.logReload(change)
	return change, nil
}

func (h *Host) logReload(c *Change) {
	h.log.Info("reloaded", "added", c.Added, "changed", c.Changed, "removed", c.Removed, "policies", c.Policies, "destinations", c.Destinations,
		"kept", len(c.Kept), "failed", len(c.Failed))
}

// catchUp looks for what has changed on disk since the host last looked, and with
// apply reloads it; since is when the first sign of it was. It returns nil, nil when
// nothing has, or when it is what could not be used before. Unlike a reload that
// somebody asks for, it does not start again what has failed and has not changed.
func (h *Host) catchUp(ctx context.Context, apply bool, since time.Time) (*Change, error) {
	change, err := h.change(ctx, apply)
	if apply && (change != nil || err != nil) && ctx.Err() == nil {
		h.reloaded(Reloaded{change, err, time.Since(since)})
	}
	return change, err
}

// change is catchUp under the lock.
func (h *Host) change(ctx context.Context, apply bool) (*Change, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	if ctx.Err() != nil { // the host was closed meanwhile
		return nil, ctx.Err()
	}
	if err := h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := h.plan(ctx)
	if err == nil {
		sum := next.sum()
		if sum == h.seen {
			h.misread = ""
			return nil, nil
		}
		h.seen = sum
	}
	if err == nil && apply {
		change.Retried = []string{}
		err = h.apply(ctx, next, change)
	}
	switch {
	case ctx.Err() != nil || err != nil && err.Error() == h.misread:
		return nil, ctx.Err()
	case err != nil:
		h.misread = err.Error()
		h.log.Error("not reloaded, everything goes on as it was", "error", err)
		return nil, err
	case apply:
		h.logReload(change)
		h.logUnused(change)
	default:
		h.logChange(change)
	}
	h.misread = ""
	return change, nil
}

// plan makes the next roster, in which everything that has not changed is what
// runs now, and says how it differs.
func (h *Host) plan(ctx context.Context) (*roster, *Change, error) {
	now := h.gen.Load().roster
	cfg := now.cfg
	if h.opts.Reread != nil {
		var err error
		if cfg, err = h.opts.Reread(); err != nil {
			return nil, nil, err
		}
	}
	next, err := h.discover(ctx, cfg, now)
	if err != nil {
		return nil, nil, err
	}
	next.policy = h.pipeline(next.members, now)
	places := next.places(now)
	h.places.Store(&places)
	c := &Change{Added: []string{}, Changed: []string{}, Removed: []string{}, Kept: []KeptBuild{}, Retried: []string{},
		Restart: needRestart(now.cfg, cfg), Failed: []protocol.Diagnostic{}, Policies: changedPolicies(now.members, next.members), Files: []string{}}
	c.Destinations, c.Retried = next.keepDestinations(now)
	for _, id := range next.order {
		switch before, x := now.extensions[id], next.extensions[id]; {
		case before == nil:
			c.Added = append(c.Added, id)
		case before.source.sum == x.source.sum:
			next.extensions[id] = before
			if before.hasFailed() {
				c.Retried = append(c.Retried, id)
			}
		default:
			c.Changed = append(c.Changed, id)
			for _, name := range x.differs(before) {
				c.Files = append(c.Files, id+"/"+name)
			}
		}
	}
	for _, id := range now.order {
		if next.extensions[id] != nil {
			continue
		}
		before := now.extensions[id]
		if reason := next.unusable(before); reason != "" {
			next.keep(before)
			c.Kept = append(c.Kept, KeptBuild{ID: id, Reason: reason})
		} else {
			c.Removed = append(c.Removed, id)
		}
	}
	return next, c, nil
}

// changedPolicies names the members that are not in both lists.
func changedPolicies(before, after []governance.Member) []string {
	names := []string{}
	for _, lists := range [][2][]governance.Member{{before, after}, {after, before}} {
		for _, m := range lists[0] {
			same := func(other governance.Member) bool { return sameMember(m, other) }
			if !slices.ContainsFunc(lists[1], same) && !slices.Contains(names, m.Spec.Name) {
				names = append(names, m.Spec.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// needRestart names the sections that the host has read once and for all.
func needRestart(before, after *config.Config) []string {
	list := []string{}
	for _, s := range []struct {
		key           string
		before, after any
	}{
		{"server", before.Server, after.Server}, {"log", before.Log, after.Log}, {"audit", before.Audit, after.Audit},
	} {
		if !reflect.DeepEqual(s.before, s.after) {
			list = append(list, s.key)
		}
	}
	return list
}

// unusable is what is wrong with the manifest, or the servers beside it, that x was made of, "" when x has
// been taken away on purpose.
func (r *roster) unusable(x *extension) string {
	var wrong []string
	path, sidecar := x.candidate.Path, ""
	if x.candidate.Owner != "" {
		sidecar = filepath.Join(filepath.Dir(path), manifest.SidecarName)
	}
	for _, d := range r.diagnostics {
		if (d.Path == path || d.Path == sidecar) && d.Level == protocol.LevelError || discovery.Hides(d, path) {
			wrong = append(wrong, d.String())
		}
	}
	if len(wrong) > 0 {
		return strings.Join(wrong, "\n")
	}
	for _, c := range r.skipped {
		if c.ID == x.candidate.ID && c.Path == x.candidate.Path {
			return reasonFor(c, r.diagnostics)
		}
	}
	return ""
}

// keep puts an extension of an earlier roster back in its place.
func (r *roster) keep(x *extension) {
	id := x.candidate.ID
	if x.bridge != nil {
		r.bridged[id] = x
		return
	}
	if r.extensions[id] == nil {
		r.order = append(r.order, id)
	}
	r.extensions[id] = x
	r.skipped = slices.DeleteFunc(r.skipped, func(c discovery.Candidate) bool { return c.ID == id })
	slices.SortFunc(r.order, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.extensions[a].candidate.RootIndex, r.extensions[b].candidate.RootIndex), cmp.Compare(a, b))
	})
}
