package exthost

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
)

// WatchOff is the mode of a host that does not look for changes on disk; the others
// are [config.WatchLog] and [config.WatchReload].
const WatchOff = "off"

// WatchStatus says whether, and how, a host looks for changes on disk.
type WatchStatus struct {
	Mode        string        `json:"mode"` // off, log or reload
	Debounce    time.Duration `json:"debounce_ns"`
	Directories int           `json:"directories"`           // that are watched
	Polling     string        `json:"polling,omitempty"`     // why the host looks every two seconds; "": the system tells it
	Changes     int           `json:"changes"`               // that were found, since the host was opened
	LastChange  time.Time     `json:"last_change,omitzero"`  // when
	LastProblem string        `json:"last_problem,omitzero"` // why what was found then, or by a reload since, could not be used, or a part of it
}

// watch is the goroutine that looks for changes on disk. What it is told is that
// something may have changed; what has, it finds out by planning a reload, so that
// only what would make a difference counts.
type watch struct {
	h       *Host
	asks    chan watchAsk
	applied chan struct{} // holds a token after a reload

	mu     sync.Mutex // guards status
	status WatchStatus

	// These belong to the goroutine.
	configured config.Watch // what the configuration said last
	eyes       *discovery.Watcher
	dirs       []string // that they look at, sorted
	pace       pace
}

type watchAsk struct {
	mode string
	done chan struct{}
}

func newWatch(h *Host) *watch {
	return &watch{h: h, asks: make(chan watchAsk), applied: make(chan struct{}, 1), status: WatchStatus{Mode: WatchOff}}
}

// run looks for changes until ctx ends.
func (w *watch) run(ctx context.Context) {
	defer w.close()
	w.follow()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if at, due := w.pace.due(); due {
			timer.Reset(time.Until(at))
		}
		var changed <-chan struct{}
		if w.eyes != nil {
			changed = w.eyes.Changed()
		}
		select {
		case <-ctx.Done():
			return
		case ask := <-w.asks:
			w.become(ask.mode)
			close(ask.done)
		case <-w.applied:
			w.follow()
		case <-changed:
			w.pace.event(time.Now())
		case <-timer.C:
			w.look(ctx)
		}
	}
}

// follow does what the configuration says, if it says anything new, and looks where
// the extensions are now.
func (w *watch) follow() {
	cfg := w.h.gen.Load().cfg.Extensions.Watch
	if cfg != w.configured {
		w.configured = cfg
		w.pace = pace{debounce: time.Duration(cfg.Debounce)}
		w.become(modeOf(cfg, cfg.Enabled))
	} else if w.eyes != nil {
		w.arm(*w.h.places.Load())
		w.pace.event(time.Now()) // for what nobody had told was of interest
	}
}

func modeOf(cfg config.Watch, enabled bool) string {
	if !enabled {
		return WatchOff
	}
	return cfg.Mode
}

// become takes a mode on.
func (w *watch) become(mode string) {
	w.set(func(s *WatchStatus) { s.Mode, s.Debounce = mode, w.pace.debounce })
	switch {
	case mode == WatchOff:
		w.close()
		w.set(func(s *WatchStatus) { s.Polling, s.Directories = "", 0 })
	case w.eyes == nil:
		w.eyes = discovery.NewWatcher()
		w.arm(*w.h.places.Load())
		w.pace.event(time.Now()) // for what has changed before
	default:
		w.pace.event(time.Now())
	}
}

func (w *watch) close() {
	if w.eyes != nil {
		w.eyes.Close()
		w.eyes, w.dirs = nil, nil
	}
	w.pace.settle()
}

func (w *watch) set(change func(s *WatchStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}

// arm looks at places from now on, and reports whether some of them are new.
func (w *watch) arm(places discovery.Places) (more bool) {
	more = slices.ContainsFunc(places.Dirs, func(dir string) bool { _, known := slices.BinarySearch(w.dirs, dir); return !known })
	w.dirs = places.Dirs
	polls := w.eyes.Watch(places)
	w.mu.Lock()
	before := w.status.Polling
	w.status.Directories, w.status.Polling = len(places.Dirs), ""
	if polls != nil {
		w.status.Polling = polls.Error()
	}
	w.mu.Unlock()
	if polls != nil && before == "" {
		w.h.log.Warn("the system gives no more watches, so the folders are looked at every two seconds instead", "reason", polls,
			"next", "raise fs.inotify.max_user_watches or max_user_instances, then exthost watch off and on")
	}
	return more
}

// look finds out whether anything has changed, and does what the mode says about it.
func (w *watch) look(ctx context.Context) {
	since := w.pace.settle()
	w.mu.Lock()
	mode := w.status.Mode
	w.mu.Unlock()
	if mode == WatchOff {
		return
	}
	found, err := w.h.catchUp(ctx, mode == config.WatchReload, since)
	if ctx.Err() != nil {
		return
	}
	if found != nil || err != nil {
		w.pace.acted(time.Now())
		w.set(func(s *WatchStatus) { s.Changes++; s.LastChange, s.LastProblem = time.Now(), problem(found, err) })
	}
	if w.arm(*w.h.places.Load()) || found != nil {
		w.pace.event(time.Now()) // for what has changed where nobody looked yet
	}
}

// problem is why not everything that changed is in use.
func problem(c *Change, err error) string {
	var lines []string
	if err != nil {
		return err.Error()
	}
	for _, k := range c.Kept {
		for reason := range strings.SplitSeq(k.Reason, "\n") {
			lines = append(lines, k.ID+": "+reason)
		}
		if k.Evidence != nil {
			lines = append(lines, k.Evidence.Stderr...)
		}
	}
	for _, d := range c.Failed {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// logChange says what was found and not applied.
func (h *Host) logChange(c *Change) {
	if c.Empty() {
		return
	}
	attrs := []any{"next", "exthost reload applies it; exthost watch reload does so by itself"}
	for _, part := range []struct {
		key  string
		list []string
	}{{"added", c.Added}, {"changed", c.Changed}, {"removed", c.Removed}, {"policies", c.Policies}, {"files", c.Files}} {
		if len(part.list) > 0 {
			attrs = append(attrs, part.key, part.list)
		}
	}
	h.log.Info("changed on disk, and not applied", attrs...)
	h.logUnused(c)
}

// logUnused says what of a change cannot be used.
func (h *Host) logUnused(c *Change) {
	for _, k := range c.Kept {
		h.log.LogAttrs(context.Background(), slog.LevelWarn, "not reloaded, the build before goes on", slog.String("extension", k.ID), slog.String("reason", k.Reason))
	}
	for _, section := range c.Restart {
		h.log.Warn("changed, and counts when exthost is started again", "section", section)
	}
}

// WatchStatus says whether, and how, the host looks for changes on disk.
func (a Admin) WatchStatus() WatchStatus {
	w := a.h.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Watch has the host look for changes on disk: "log" says what changed, "reload"
// applies it, "on" does what the configuration says of the two, "off" looks no more.
// It holds until the host ends or extensions.watch of its configuration changes. The
// error is one of ctx, shutting_down, or of a mode that there is not.
func (a Admin) Watch(ctx context.Context, mode string) (WatchStatus, error) {
	modes := []string{"on", WatchOff, config.WatchLog, config.WatchReload}
	switch mode {
	case "on":
		mode = modeOf(a.h.gen.Load().cfg.Extensions.Watch, true)
	case WatchOff, config.WatchLog, config.WatchReload:
	default:
		text := "there is no watch mode %q"
		if near := nearest.Of(mode, modes); near != "" {
			return WatchStatus{}, protocol.Errorf(protocol.InvalidArguments, text+", did you mean %q?", mode, near)
		}
		return WatchStatus{}, protocol.Errorf(protocol.InvalidArguments, text+": there is %s", mode, strings.Join(modes, ", "))
	}
	ask := watchAsk{mode, make(chan struct{})}
	select {
	case a.h.watch.asks <- ask:
		<-ask.done
		return a.WatchStatus(), nil
	case <-ctx.Done():
		return WatchStatus{}, ctx.Err()
	case <-a.h.closing.Done():
		return WatchStatus{}, protocol.Errorf(protocol.ShuttingDown, "the host is closing")
	}
}
