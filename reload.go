package exthost

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/watch"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// reloads applies changes of the configuration and of the disk, one reload at a time.
type reloads struct {
	h      *Host
	onDisk atomic.Pointer[discovery.Places]

	mu      sync.Mutex        // held by a reload; guards the fields below
	seen    [sha256.Size]byte // of the plan last found on disk
	pending bool              // that plan was found without being applied
	spoiled [sha256.Size]byte // of the plan whose application failed
	problem string            // why the configuration last found cannot be used
}

var _ watch.Host = (*reloads)(nil)

// setPlaces sets the places that the watch looks at: those that concern next, or now, the plan in force.
func (r *reloads) setPlaces(next, now *snapshot.Plan) {
	places := next.Places(now)
	r.onDisk.Store(&places)
}

// Reloaded is the outcome of a reload.
type Reloaded struct {
	Change *status.Change // nil if Err is not
	Err    error          // why nothing was changed
	Took   time.Duration  // since the request, or since the first sign of a change
}

// Reload is [Admin.Reload].
func (r *reloads) Reload(ctx context.Context, only ...string) (*status.Change, error) {
	began := time.Now()
	change, err := r.reload(ctx, only)
	r.reloaded(Reloaded{change, err, time.Since(began)})
	return change, err
}

// reloaded reports the outcome of a reload to listeners, the watch and the embedding program.
func (r *reloads) reloaded(o Reloaded) {
	r.h.stats.feed.Reload(o.Change, o.Err)
	if o.Err == nil {
		r.h.watch.Applied(o.Change)
	}
	if r.h.opts.OnReload != nil {
		r.h.opts.OnReload(o)
	}
}

// reload carries out a requested reload, of all extensions or only of these ids.
func (r *reloads) reload(ctx context.Context, only []string) (change *status.Change, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if err != nil || only == nil {
			r.keep(err)
		}
	}()
	if r.h.life.closing.Err() != nil {
		return nil, protocol.Errorf(protocol.ShuttingDown, "the host is closed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.h.life.closing, cancel)()
	if err := r.h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := r.plan(ctx, only)
	if err != nil {
		return nil, err
	}
	if only == nil {
		r.seen, r.pending = next.Sum(), false
	}
	if err := r.apply(ctx, next, change); err != nil {
		r.spoiled = next.Sum()
		return nil, err
	}
	r.log(change)
	return change, nil
}

// keep keeps the error of a reload for the status; nil clears it.
func (r *reloads) keep(err error) {
	switch protocol.KindOf(err) {
	case protocol.Canceled, protocol.CallTimeout, protocol.ShuttingDown: // the caller or the host gave up
	case protocol.Overloaded:
		r.h.env.Log.Error("not reloaded, everything goes on as it was", "error", err)
	default:
		r.h.diagnostics.SetRefused(err)
	}
}

func (r *reloads) log(c *status.Change) {
	for _, line := range c.Rules {
		r.h.env.Log.Warn("a rule has changed", "change", line)
	}
	r.h.env.Log.Info("reloaded", "added", c.Added, "changed", c.Changed, "removed", c.Removed, "policies", c.Policies,
		"destinations", c.Destinations, "clients", c.Clients,
		"kept", len(c.Kept), "failed", len(c.Failed))
}

// plan makes the next plan, which reuses the running units that have not changed, and returns its difference from
// the current one. With only, it changes no extensions but these.
func (r *reloads) plan(ctx context.Context, only []string) (*snapshot.Plan, *status.Change, error) {
	now := r.h.snapshots.Load().Plan
	cfg := now.Config
	if r.h.opts.Reread != nil {
		var err error
		if cfg, err = r.h.opts.Reread(); err != nil {
			return nil, nil, err
		}
	}
	if only != nil {
		cfg = snapshot.OnlyRules(now.Config, cfg)
	}
	next, err := r.h.discover(ctx, cfg, now)
	if err != nil {
		return nil, nil, err
	}
	if d := next.Exhausted(); d != nil { // a fault of the host, and no change of the disk
		r.h.watch.Retry()
		return nil, nil, protocol.Errorf(protocol.Overloaded,
			"not reloaded: %s; everything goes on as it was, and the host looks again every %v", d, watch.RetryPause)
	}
	r.setPlaces(next, now)
	change := next.Follow(now)
	if only != nil {
		next.Only(now, change, only)
	} else {
		change.Clients = r.h.clients.Changed(cfg.Server.Clients)
	}
	return next, change, nil
}

// Places implements [watch.Host].
func (r *reloads) Places() discovery.Places { return *r.onDisk.Load() }

// Settings implements [watch.Host].
func (r *reloads) Settings() config.Watch { return r.h.snapshots.Load().Config.Extensions.Watch }

// CatchUp implements [watch.Host]. It looks for changes on disk since the last look, and reloads them with apply.
// since is the time of the first sign of a change. It returns nil, nil if nothing has changed or the problem is
// the same as before. Unlike a requested reload, it does not restart failed extensions that have not changed.
func (r *reloads) CatchUp(ctx context.Context, apply bool, since time.Time) (*status.Change, error) {
	change, err := r.catchUp(ctx, apply)
	if apply && (change != nil || err != nil) && ctx.Err() == nil {
		r.reloaded(Reloaded{change, err, time.Since(since)})
	}
	return change, err
}

func (r *reloads) catchUp(ctx context.Context, apply bool) (*status.Change, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil { // the host was closed meanwhile
		return nil, ctx.Err()
	}
	if err := r.h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := r.plan(ctx, nil)
	if err == nil {
		sum := next.Sum()
		if sum == r.seen && !(apply && r.pending) {
			if r.problem = ""; sum != r.spoiled {
				r.keep(nil)
			}
			return nil, nil
		}
		r.seen, r.pending = sum, !apply
	}
	if err == nil && apply {
		change.Retried = []string{}
		if err = r.apply(ctx, next, change); err != nil {
			r.spoiled = r.seen
		}
	}
	switch {
	case ctx.Err() != nil || err != nil && err.Error() == r.problem:
		return nil, ctx.Err()
	case err != nil:
		r.problem = err.Error()
		r.keep(err)
		return nil, err
	case apply:
		r.log(change)
		watch.LogUnused(r.h.env.Log, change)
	default:
		watch.LogChange(r.h.env.Log, change)
	}
	r.problem = ""
	r.keep(nil)
	return change, nil
}

// followPlaces puts a plan in force with the extensions that other nodes share now.
func (r *reloads) followPlaces() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.life.closing.Err() != nil {
		return
	}
	next := *r.h.snapshots.Load().Plan
	r.h.followPlaces(&next)
	r.h.units.Add(next.Units())
	r.h.swap(&next)
	r.retire(&next)
}
