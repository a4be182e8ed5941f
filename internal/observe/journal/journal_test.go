package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/status"
)

// messages returns the kept records.
func messages(j *Journal, f status.LogFilter) (list []string) {
	for r := range j.Records(context.Background(), f) {
		list = append(list, r.Message)
	}
	return list
}

func TestKeptAndFiltered(t *testing.T) {
	j := New()
	log := slog.New(j.Handler())
	a, b := log.With("extension", "a"), log.With("extension", "b")
	log.Info("host")
	a.Warn("one")
	b.Error("two")
	a.Debug("nobody listens")
	a.Info("three")
	for _, tt := range []struct {
		name string
		f    status.LogFilter
		want []string
	}{
		{"all", status.LogFilter{Level: slog.LevelDebug}, []string{"host", "one", "two", "three"}},
		{"zero value", status.LogFilter{}, []string{"host", "one", "two", "three"}},
		{"extension", status.LogFilter{Extension: "a"}, []string{"one", "three"}},
		{"level", status.LogFilter{Level: slog.LevelWarn}, []string{"one", "two"}},
		{"last", status.LogFilter{Last: 2}, []string{"two", "three"}},
		{"none", status.LogFilter{Last: -1}, nil},
		{"unknown", status.LogFilter{Extension: "c"}, nil},
	} {
		if diff := cmp.Diff(tt.want, messages(j, tt.f)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// A source with many records displaces only its own.
func TestFloodStaysWithItsSource(t *testing.T) {
	j := New()
	log := slog.New(j.Handler())
	log.With("extension", "quiet").Error("the one that matters")
	for i := range 10 * maxKept {
		log.With("extension", "loud").Warn(fmt.Sprint(i))
	}
	if got := messages(j, status.LogFilter{Extension: "quiet"}); len(got) != 1 {
		t.Errorf("quiet has %q", got)
	}
	loud := messages(j, status.LogFilter{Extension: "loud"})
	if len(loud) != maxKept || loud[0] != fmt.Sprint(9*maxKept) || loud[maxKept-1] != fmt.Sprint(10*maxKept-1) {
		t.Errorf("loud has %d, %s to %s", len(loud), loud[0], loud[len(loud)-1])
	}
	for range maxKept {
		log.With("extension", "loud").Warn(strings.Repeat("x", maxText/2))
	}
	if n := len(messages(j, status.LogFilter{Extension: "loud"})); n != maxBytes/(maxText/2) {
		t.Errorf("%d long records are kept", n)
	}
}

func TestAttributes(t *testing.T) {
	j := New()
	log := slog.New(j.Handler()).With("pid", 7)
	log.WithGroup("g").With("n", 1).Info("m", "extension", "not the source", "d", 1500*time.Millisecond,
		slog.Group("in", "x", true),
		"err", errors.New("a<b"), "bad", func() {}, slog.Group("", "flat", 12345678901234567), slog.Attr{})
	log.Info("plain", "extension", "x")
	var got []status.LogRecord
	for r := range j.Records(t.Context(), status.LogFilter{}) {
		got = append(got, r)
	}
	want := `{"pid":7,"g.n":1,"g.extension":"not the source","g.d_ms":1500,"g.in.x":true,"g.err":"a<b","g.bad":"!json: unsupported type: func()","g.flat":12345678901234567}`
	if string(got[0].Attrs) != want || got[0].Extension != "" {
		t.Errorf("%s\nwant\n%s", got[0].Attrs, want)
	}
	if got[1].Extension != "x" || string(got[1].Attrs) != `{"pid":7}` {
		t.Errorf("%+v", got[1])
	}
	log.Info(strings.Repeat("é", maxText), "long", strings.Repeat("x", maxText), "longer", strings.Repeat("y", maxText))
	for r := range j.Records(t.Context(), status.LogFilter{Last: 1}) {
		if len(r.Message) > maxText || len(r.Attrs) > maxText || !json.Valid(r.Attrs) {
			t.Errorf("a long record is kept with %d and %d bytes", len(r.Message), len(r.Attrs))
		}
	}
}

// Records below info are not kept, and without a follower not even encoded.
func TestDebugOnlyForFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New()
		log := slog.New(j.Handler())
		if log.Enabled(t.Context(), slog.LevelDebug) {
			t.Error("debug is enabled, and nobody follows")
		}
		var got []string
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			for r := range j.Records(ctx, status.LogFilter{Level: slog.LevelDebug, Follow: true}) {
				got = append(got, r.Message)
			}
		})
		synctest.Wait()
		log.Debug("d1")
		log.Info("i")
		synctest.Wait()
		cancel()
		wg.Wait()
		log.Debug("d2")
		if diff := cmp.Diff([]string{"d1", "i"}, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"i"}, messages(j, status.LogFilter{Level: slog.LevelDebug})); diff != "" {
			t.Error(diff)
		}
		if log.Enabled(t.Context(), slog.LevelDebug) {
			t.Error("debug stays enabled after the follower has gone")
		}
	})
}

// A follower that also reads the kept records misses none and gets none twice.
func TestFollowWithoutGap(t *testing.T) {
	j := New()
	log := slog.New(j.Handler())
	const n = 200 // fewer than maxKept, so that all must arrive
	for i := range n / 2 {
		log.Info(fmt.Sprint(i))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			next := 0
			for r := range j.Records(t.Context(), status.LogFilter{Follow: true}) {
				if r.Message != fmt.Sprint(next) || r.Lost > 0 {
					t.Errorf("got %q, lost %d, want %d", r.Message, r.Lost, next)
					return
				}
				if next++; next == n {
					return
				}
			}
		})
	}
	for i := n / 2; i < n; i++ {
		log.Info(fmt.Sprint(i))
	}
	wg.Wait()
}

// A follower that does not read has a bounded queue, and gets the number of lost records.
func TestSlowFollowerLearnsWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New()
		log := slog.New(j.Handler())
		go func() {
			synctest.Wait()
			log.Info("first")
			synctest.Wait()
			for range concurrent.MaxQueuedItems + 10 {
				log.Info("flood")
			}
			time.Sleep(2 * time.Second) // virtual time; then the follower reads again
			log.Info("last")
			j.Close()
		}()
		var got []status.LogRecord
		for r := range j.Records(t.Context(), status.LogFilter{Follow: true}) {
			if got = append(got, r); len(got) == 1 {
				time.Sleep(time.Second)
			}
		}
		if len(got) != concurrent.MaxQueuedItems+2 || got[len(got)-1].Message != "last" || got[len(got)-1].Lost != 10 {
			t.Errorf("%d records, the last is %+v", len(got), got[len(got)-1])
		}
	})
}

func TestCloseEndsFollowers(t *testing.T) {
	j := New()
	log := slog.New(j.Handler())
	log.Info("kept")
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		for range j.Records(context.Background(), status.LogFilter{Follow: true}) {
			close(started)
		}
	})
	<-started
	j.Close()
	j.Close()
	wg.Wait()
	log.Info("too late")
	if diff := cmp.Diff([]string{"kept"}, messages(j, status.LogFilter{Follow: true})); diff != "" {
		t.Error(diff)
	}
}

// The records of new extensions displace those of the extensions that have been quiet for longest, but never the
// host's.
func TestRecordsOfAllSourcesAreBounded(t *testing.T) {
	j := New()
	log := slog.New(j.Handler())
	log.Info("host")
	const sources = 2 * maxTotal / maxBytes
	for i := range sources {
		x := log.With("extension", fmt.Sprint("x", i))
		for range maxBytes / (maxText / 2) {
			x.Warn(strings.Repeat("x", maxText/2))
		}
		log.With("extension", "x0").Warn("again")
	}
	bytes := 0
	for r := range j.Records(t.Context(), status.LogFilter{}) {
		bytes += size(&r)
	}
	if bytes > maxTotal || bytes < maxTotal/2 {
		t.Errorf("%d bytes are kept, at most %d", bytes, maxTotal)
	}
	for id, want := range map[string]bool{"": true, "x0": true, "x1": false, fmt.Sprint("x", sources-1): true} {
		if got := j.sources[id] != nil; got != want {
			t.Errorf("records of %q are kept: %t", id, got)
		}
	}
	if len(j.sources) != j.order.Len()+1 {
		t.Errorf("%d sources, %d in order", len(j.sources), j.order.Len())
	}
}
