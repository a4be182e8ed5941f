package exthost

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/snapshot"
	"github.com/exthost/exthost/internal/watch"
	"github.com/exthost/exthost/status"
)

// reloads is the state of reloads. Its mutex is held by one reload at a time.
type reloads struct {
	mu      sync.Mutex
	seen    [sha256.Size]byte // of the plan that was found on disk last
	problem string            // why the configuration that was found last cannot be used
	onDisk  atomic.Pointer[discovery.Places]
}

// found notes what was found on disk: a plan, and the plan in force when it was found.
func (r *reloads) found(next, now *snapshot.Plan) {
	places := next.Places(now)
	r.onDisk.Store(&places)
	r.seen = next.Sum()
}

// Reloaded is the outcome of a reload, whoever asked for it.
type Reloaded struct {
	Change *status.Change // nil when Err is not
	Err    error          // why everything goes on as it was
	Took   time.Duration  // since the request, or since the first sign of a change
}

// Plan returns what [Admin.Reload] would do now, as far as that is known without a start.
func (a Admin) Plan(ctx context.Context) (*status.Change, error) {
	a.h.reloads.mu.Lock()
	defer a.h.reloads.mu.Unlock()
	_, c, err := a.h.plan(ctx)
	return c, err
}

// Reload brings the host to what its configuration and the search paths hold now.
// Extensions that are new or changed start beside those that run; then calls go to them;
// then extensions that are gone end, once their calls have, within their drain_timeout. An
// extension whose new build is broken, lacks something or does not start goes on as it was;
// with reload = "stop_first" it ends before its new build starts. An extension that had
// failed is started again. A configuration that cannot be used and a policy that does not
// start are errors, and change nothing; nor does an end of ctx or of the host meanwhile.
func (a Admin) Reload(ctx context.Context) (*status.Change, error) {
	began := time.Now()
	change, err := a.h.reload(ctx)
	a.h.reloaded(Reloaded{change, err, time.Since(began)})
	return change, err
}

// reloaded reports the outcome of a reload to everybody.
func (h *Host) reloaded(r Reloaded) {
	h.feed.Reload(r.Change, r.Err)
	if r.Err == nil {
		h.watch.Applied(r.Change)
	}
	if h.opts.OnReload != nil {
		h.opts.OnReload(r)
	}
}

func (h *Host) reload(ctx context.Context) (*status.Change, error) {
	h.reloads.mu.Lock()
	defer h.reloads.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life.closing, cancel)()
	if err := h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := h.plan(ctx)
	if err != nil {
		return nil, err
	}
	h.reloads.seen = next.Sum()
	if err := h.apply(ctx, next, change); err != nil {
		return nil, err
	}
	h.logReload(change)
	return change, nil
}

func (h *Host) logReload(c *status.Change) {
	h.env.Log.Info("reloaded", "added", c.Added, "changed", c.Changed, "removed", c.Removed, "policies", c.Policies, "destinations", c.Destinations,
		"kept", len(c.Kept), "failed", len(c.Failed))
}

// plan makes the next plan, in which everything that has not changed is what runs now, and
// returns how it differs from the current one.
func (h *Host) plan(ctx context.Context) (*snapshot.Plan, *status.Change, error) {
	now := h.snapshots.Load().Plan
	cfg := now.Config
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
	places := next.Places(now)
	h.reloads.onDisk.Store(&places)
	return next, next.Follow(now), nil
}

// diskWatch is the host as its watch sees it.
type diskWatch struct{ h *Host }

var _ watch.Host = diskWatch{}

// Places implements [watch.Host].
func (d diskWatch) Places() discovery.Places { return *d.h.reloads.onDisk.Load() }

// Settings implements [watch.Host].
func (d diskWatch) Settings() config.Watch { return d.h.snapshots.Load().Config.Extensions.Watch }

// CatchUp looks for changes on disk since the last look, and with apply reloads them. since
// is when the first sign of a change was. It returns nil, nil when nothing has changed, or
// when the problem is the same as before. Unlike a reload that somebody asks for, it does
// not start an extension again that has failed and has not changed.
func (d diskWatch) CatchUp(ctx context.Context, apply bool, since time.Time) (*status.Change, error) {
	change, err := d.catchUp(ctx, apply)
	if apply && (change != nil || err != nil) && ctx.Err() == nil {
		d.h.reloaded(Reloaded{change, err, time.Since(since)})
	}
	return change, err
}

func (d diskWatch) catchUp(ctx context.Context, apply bool) (*status.Change, error) {
	h, r := d.h, &d.h.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil { // the host was closed meanwhile
		return nil, ctx.Err()
	}
	if err := h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := h.plan(ctx)
	if err == nil {
		sum := next.Sum()
		if sum == r.seen {
			r.problem = ""
			return nil, nil
		}
		r.seen = sum
	}
	if err == nil && apply {
		change.Retried = []string{}
		err = h.apply(ctx, next, change)
	}
	switch {
	case ctx.Err() != nil || err != nil && err.Error() == r.problem:
		return nil, ctx.Err()
	case err != nil:
		r.problem = err.Error()
		h.env.Log.Error("not reloaded, everything goes on as it was", "error", err)
		return nil, err
	case apply:
		h.logReload(change)
		watch.LogUnused(h.env.Log, change)
	default:
		watch.LogChange(h.env.Log, change)
	}
	r.problem = ""
	return change, nil
}
