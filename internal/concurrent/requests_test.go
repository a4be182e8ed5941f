package concurrent

import (
	"testing"
	"testing/synctest"
	"time"
)

// Runs of f take at most a fifth of the time, however many requests there are, and no request is lost.
func TestServe(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		pause, takes, during time.Duration
		runs                 int
	}{
		{"a run that takes nothing", 5 * time.Millisecond, 0, time.Second, 201},
		{"a run that takes longer than the pause", 5 * time.Millisecond, 20 * time.Millisecond, time.Second, 11},
		{"a run that takes very long", 5 * time.Millisecond, 5 * time.Second, time.Minute, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, runs, last := NewRequests(), 0, time.Time{}
				go r.Serve(t.Context(), tt.pause, func() {
					runs, last = runs+1, time.Now()
					time.Sleep(tt.takes)
				})
				var asked time.Time
				for began := time.Now(); time.Since(began) < tt.during; time.Sleep(time.Millisecond) {
					asked = time.Now()
					r.Add()
				}
				synctest.Wait()
				if runs != tt.runs {
					t.Errorf("%d runs in %v, want %d", runs, tt.during, tt.runs)
				}
				time.Sleep(time.Hour)
				if last.Before(asked) {
					t.Error("no run began after the last request")
				}
			})
		})
	}
}
