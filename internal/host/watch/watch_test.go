package watch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

const patience = 60 * time.Second

// fakeHost has one directory of *.txt files, and reports the changes that the test sends.
type fakeHost struct {
	dir    string
	checks chan bool // receives the argument apply of each check
	finds  chan found
}

type found struct {
	change *status.Change
	err    error
}

func (h *fakeHost) CatchUp(ctx context.Context, apply bool, _ time.Time) (*status.Change, error) {
	select {
	case h.checks <- apply:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case f := <-h.finds:
		return f.change, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *fakeHost) Places() discovery.Places {
	return discovery.Places{
		Dirs:  []string{h.dir},
		Wants: func(path string) bool { return filepath.Ext(path) == ".txt" },
	}
}

func (h *fakeHost) Settings() config.Watch {
	return config.Watch{Mode: config.WatchReload, Debounce: manifest.Duration(time.Millisecond)}
}

// next answers one check and returns the argument apply of that check.
func (h *fakeHost) next(t *testing.T, f found) bool {
	t.Helper()
	select {
	case apply := <-h.checks:
		h.finds <- f
		return apply
	case <-time.After(patience):
		t.Fatal("no check")
		return false
	}
}

func TestWatch(t *testing.T) {
	processtest.Leaks(t)
	h := &fakeHost{t.TempDir(), make(chan bool), make(chan found)}
	w := New(h, slog.New(slog.DiscardHandler))
	deadline, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx, stop := context.WithCancel(deadline)
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	defer func() { stop(); <-ended }()
	set := func(mode string) status.Watch {
		t.Helper()
		s, err := w.Set(deadline, mode)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := set("on"); s.Mode != config.WatchReload || s.Directories != 1 ||
		time.Duration(s.Debounce) != time.Millisecond {
		t.Errorf("on: %+v", s)
	}
	if !h.next(t, found{}) {
		t.Error("the first check does not apply")
	}
	if s := set(config.WatchLog); s.Mode != config.WatchLog || s.Changes != 0 {
		t.Errorf("log: %+v", s)
	}
	if h.next(t, found{err: errors.New("broken")}) {
		t.Error("mode log applies")
	}
	if s := set(config.WatchReload); s.Changes != 1 || s.LastProblem != "broken" || s.LastChange.IsZero() {
		t.Errorf("after a problem: %+v", s)
	}
	h.next(t, found{})
	unwanted := filepath.Join(h.dir, "a")
	// one event: only the new name matches
	if err := errors.Join(os.WriteFile(unwanted, nil, 0o600), os.Rename(unwanted, unwanted+".txt")); err != nil {
		t.Fatal(err)
	}
	h.next(t, found{change: &status.Change{Kept: []status.KeptBuild{{ID: "x", Reason: "one\ntwo"}}}})
	h.next(t, found{}) // a change is followed by another check
	if s := w.Status(); s.Changes != 2 || s.LastProblem != "x: one\nx: two" {
		t.Errorf("after a change: %+v", s)
	}
	w.Applied(new(status.Change))
	h.next(t, found{})
	if s := set(status.WatchOff); s.Directories != 0 || s.LastProblem != "" {
		t.Errorf("off: %+v", s)
	}
	for mode, want := range map[string]string{
		"relaod": `there is no watch mode "relaod", did you mean "reload"?`,
		"zzzzzz": `there is no watch mode "zzzzzz": there is on, off, log, reload`,
	} {
		if _, err := w.Set(deadline, mode); protocol.KindOf(err) != protocol.InvalidArguments ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if _, err := w.Set(deadline, "on"); err != nil {
		t.Fatal(err)
	}
	stop() // Run ends, perhaps during a check
	if _, err := w.Set(deadline, "on"); err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
		t.Error(err)
	}
	<-ended
	if _, err := w.Set(deadline, "on"); protocol.KindOf(err) != protocol.ShuttingDown {
		t.Errorf("after the end: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "real"), 0o700)); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("real/exthost.yaml"), nil, 0o600),
		os.Symlink(at("real/exthost.yaml"), at("exthost.yaml"))); err != nil {
		t.Skip("links need a privilege")
	}
	spec := &runtime.Spec{
		Dir: at("x"),
		Manifest: &manifest.Manifest{
			Transport: manifest.Transport{Script: "main.sh"},
			Dev:       manifest.Dev{Watch: []string{"lib/*.sh"}},
		},
	}
	cfg := &config.Config{Files: []string{at("exthost.yaml")}}
	cfg.Extensions.IgnoreDirs = []string{".git"}
	p := Places(cfg, []string{at("x"), dir},
		[]Program{{spec, descriptors.Source{Dirs: []string{at("x"), at("x/lib")}}}})
	if want := []string{
		dir,
		at("real"),
		at("x"),
		at("x/lib"),
	}; !slices.Equal(p.Dirs, want) || !slices.Equal(p.Ignore, []string{".git"}) {
		t.Errorf("%q, %q; want %q", p.Dirs, p.Ignore, want)
	}
	for file, want := range map[string]bool{
		"y/plugin.toml": true, "y/.mcp.json": true, "y/io.github.exthost/tables.toml": true,
		"exthost.yaml": true, "real/exthost.yaml": true, "x/main.sh": true, "x/lib/a.sh": true,
		"x/a.sh": false, "y/lib/a.sh": false, "other.yaml": false,
	} {
		if p.Wants(at(file)) != want {
			t.Errorf("%s: wanted %v", file, !want)
		}
	}
}
