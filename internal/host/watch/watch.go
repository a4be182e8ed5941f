// Package watch looks for changes on disk, at a bounded rate, and has the host apply or report them.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Host is the part of a host that a [Watch] needs. It is safe for concurrent use, and called without a lock held;
// CatchUp may call [Watch.Applied].
type Host interface {
	// CatchUp compares the disk with what the host last read, and reloads changes if apply is set. since is the
	// time of the first event. It returns nil, nil if nothing changed.
	CatchUp(ctx context.Context, apply bool, since time.Time) (*status.Change, error)
	// Places returns where a change may matter.
	Places() discovery.Places
	// Settings returns extensions.watch of the configuration in force.
	Settings() config.Watch
}

// Watch looks for changes on disk. An event only triggers a check: the host plans a reload to find out what
// changed, so an irrelevant event has no effect. Watch is safe for concurrent use.
type Watch struct {
	host     Host
	log      *slog.Logger
	requests chan request
	applied  chan struct{} // holds a token after a reload
	retries  chan struct{} // holds a token after a check that the host could not finish
	ending   chan struct{} // closed when the context of Run ends

	mu     sync.Mutex // guards status
	status status.Watch

	// Owned by the goroutine of Run.
	settings  config.Watch // of the configuration, as last applied
	watcher   *discovery.Watcher
	dirs      []string // watched directories, sorted
	debouncer debouncer
}

// request sets the mode of Run.
type request struct {
	mode string
	done chan struct{}
}

// New returns a Watch of h in mode off. [Watch.Run] applies h's settings.
func New(h Host, log *slog.Logger) *Watch {
	return &Watch{
		host:     h,
		log:      log,
		requests: make(chan request),
		applied:  make(chan struct{}, 1),
		retries:  make(chan struct{}, 1),
		ending:   make(chan struct{}),
		status:   status.Watch{Mode: status.WatchOff},
	}
}

// Run looks for changes until ctx ends, and leaves no goroutine behind. Call it once.
func (w *Watch) Run(ctx context.Context) {
	context.AfterFunc(ctx, func() { close(w.ending) })
	defer w.stop()
	w.refresh()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var again <-chan time.Time // fires when a failed check is repeated
	for {
		timer.Stop()
		if at, due := w.debouncer.due(); due {
			timer.Reset(time.Until(at))
		}
		var changed <-chan struct{}
		if w.watcher != nil {
			changed = w.watcher.Changed()
		}
		select {
		case <-ctx.Done():
			return
		case r := <-w.requests:
			w.setMode(r.mode)
			close(r.done)
		case <-w.applied:
			w.refresh()
		case <-changed:
			w.debouncer.event(time.Now())
		case <-timer.C:
			w.check(ctx)
		case <-w.retries:
			again = time.After(RetryPause)
		case <-again:
			again = nil
			w.lookAgain(ctx)
		}
	}
}

// refresh applies the settings of the configuration if they are new; else it watches the current places of the
// extensions.
func (w *Watch) refresh() {
	settings := w.host.Settings()
	if settings != w.settings {
		w.settings = settings
		w.debouncer = debouncer{debounce: time.Duration(settings.Debounce)}
		w.setMode(modeOf(settings, settings.Enabled))
	} else if w.watcher != nil {
		w.watchPlaces()
		w.debouncer.event(time.Now()) // events at new places were lost until now
	}
}

func modeOf(settings config.Watch, enabled bool) string {
	if !enabled {
		return status.WatchOff
	}
	return settings.Mode
}

func (w *Watch) setMode(mode string) {
	w.update(func(s *status.Watch) { s.Mode, s.Debounce = mode, protocol.Duration(w.debouncer.debounce) })
	if mode == status.WatchOff {
		w.stop()
		w.update(func(s *status.Watch) { s.Polling, s.Directories = "", 0 })
		return
	}
	if w.watcher == nil {
		w.watcher = discovery.NewWatcher()
		w.watchPlaces()
	}
	w.debouncer.event(time.Now()) // finds changes made before this mode was set
}

// stop stops watching, and forgets unchecked events.
func (w *Watch) stop() {
	if w.watcher != nil {
		w.watcher.Close()
		w.watcher, w.dirs = nil, nil
	}
	w.debouncer.take()
}

func (w *Watch) update(change func(s *status.Watch)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}

// watchPlaces watches the host's current places, and reports whether some directories are new.
func (w *Watch) watchPlaces() (more bool) {
	places := w.host.Places()
	more = slices.ContainsFunc(places.Dirs,
		func(dir string) bool { _, known := slices.BinarySearch(w.dirs, dir); return !known })
	w.dirs = places.Dirs
	polls := w.watcher.Watch(places)
	var before string
	w.update(func(s *status.Watch) {
		before = s.Polling
		s.Directories, s.Polling = len(places.Dirs), ""
		if polls != nil {
			s.Polling = polls.Error()
		}
	})
	if polls != nil && before == "" {
		w.log.Warn("the system gives no more watches, so the folders are looked at every two seconds instead", "reason",
			polls,
			"next", "raise fs.inotify.max_user_watches or max_user_instances, then exthost reload --watch off and on")
	}
	return more
}

// check has the host find changes, and apply them in mode reload.
func (w *Watch) check(ctx context.Context) {
	since := w.debouncer.take()
	mode := w.Status().Mode
	if mode == status.WatchOff {
		return
	}
	w.watcher.Mark()
	found, err := w.host.CatchUp(ctx, mode == config.WatchReload, since)
	if ctx.Err() != nil {
		return
	}
	if found != nil || err != nil {
		w.debouncer.changed(time.Now())
		w.update(func(s *status.Watch) { s.Changes++; s.LastChange, s.LastProblem = time.Now(), problem(found, err) })
	}
	if w.watchPlaces() || found != nil {
		w.debouncer.event(time.Now()) // finds changes at places that were not watched during the check
	}
}

// RetryPause is the time between [Watch.Retry] and the repeated check.
const RetryPause = 2 * time.Second

// Retry has the check repeated after RetryPause, in every mode. The host calls it when it lacked resources to read
// all files. Retry does not block.
func (w *Watch) Retry() {
	select {
	case w.retries <- struct{}{}:
	default: // a check is due already
	}
}

// lookAgain repeats a check. In mode log it reports changes; in any other mode it applies them, because a reload had
// been requested.
func (w *Watch) lookAgain(ctx context.Context) {
	if w.Status().Mode == config.WatchLog {
		w.debouncer.event(time.Now())
		return
	}
	_, _ = w.host.CatchUp(ctx, true, time.Now()) // the host logs and reports the outcome
}

// Applied records a reload that was carried out, by the watch or on request. It does not block.
func (w *Watch) Applied(c *status.Change) {
	w.update(func(s *status.Watch) { s.LastProblem = problem(c, nil) })
	select {
	case w.applied <- struct{}{}:
	default: // a refresh is due already
	}
}

// Status returns whether and how the host looks for changes on disk.
func (w *Watch) Status() status.Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Set changes the mode: "log" reports changes, "reload" applies them, "on" does what the configuration states,
// "off" stops. The mode holds until Run ends or extensions.watch changes. Set waits until the mode is in effect.
// The error is that of ctx, shutting_down once the context of Run has ended, or invalid_arguments for an unknown
// mode.
func (w *Watch) Set(ctx context.Context, mode string) (status.Watch, error) {
	modes := []string{"on", status.WatchOff, config.WatchLog, config.WatchReload}
	if !slices.Contains(modes, mode) {
		message := "there is no watch mode %q"
		if near := text.Nearest(mode, modes); near != "" {
			return status.Watch{}, protocol.Errorf(protocol.InvalidArguments, message+", did you mean %q?", mode, near)
		}
		return status.Watch{}, protocol.Errorf(protocol.InvalidArguments, message+": there is %s", mode,
			strings.Join(modes, ", "))
	}
	if mode == "on" {
		mode = modeOf(w.host.Settings(), true)
	}
	r := request{mode, make(chan struct{})}
	select {
	case w.requests <- r:
		<-r.done
		return w.Status(), nil
	case <-ctx.Done():
		return status.Watch{}, ctx.Err()
	case <-w.ending:
		return status.Watch{}, protocol.Errorf(protocol.ShuttingDown, "the host is closing")
	}
}
