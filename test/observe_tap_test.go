package test

import (
	"context"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/status"
)

// A tap shows both directions with secrets masked and noise included. It survives reloads and ends with the host.
func TestTapShowsMaskedFrames(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "[requires]\nenv = [\"X_TOKEN\"]\n")).
		Add("y", "[transport]\nkind = \"exec\"\ncommand = \"sh\"\n[[tools]]\nname = \"t\"\ncommand = [\"echo\", "+
			"\"hello\"]\n").
		Add("noisy", hosttest.Child("out some noise; sdk", ""))
	h := f.Open(exthost.Options{Environ: []string{"X_TOKEN=canary-value", "PATH=/usr/bin:/bin"}})
	frames := make(chan status.Frame, 1000)
	go func() {
		defer close(frames)
		for frame := range h.Admin().Tap(context.Background(), "") {
			frames <- frame
		}
	}()
	want := func(id string, sent bool, part string) {
		t.Helper()
		for {
			select {
			case f := <-frames:
				if strings.Contains(f.Text, "canary") {
					t.Fatalf("a secret is shown: %s", f.Text)
				}
				if f.Extension == id && f.Sent == sent && strings.Contains(f.Text, part) {
					return
				}
			case <-hosttest.Deadline(t).Done():
				t.Fatalf("%s, sent %v: no frame with %q", id, sent, part)
			}
		}
	}
	ctx := hosttest.Deadline(t)
	hosttest.Eventually(t, "it is tapped", func() bool {
		_, _ = h.Call(ctx, "ext_x_greet", map[string]any{"name": "first"})
		return len(frames) > 0
	})
	if _, err := h.Call(ctx, "ext_x_echo", map[string]any{"secret": "canary-value", "name": "Ada"}); err != nil {
		t.Fatal(err)
	}
	want("x", true, `"arguments":{"name":"Ada","secret":"***"}`)
	want("x", false, `"structuredContent":{"name":"Ada","secret":"***"}`)
	if _, err := h.Call(ctx, "ext_y_t", nil); err != nil {
		t.Fatal(err)
	}
	want("y", true, `"command":["/`)
	want("y", false, `"stdout":"hello\n"`)
	f.Add("noisy", hosttest.Child("out other noise; sdk", "")) // and its handshake
	reload(t, h)
	want("noisy", false, "other noise")
	want("noisy", false, `"id":0`)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for range frames { // to the end
	}
}

// Without a tap there is no cost.
func TestTapIsFree(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	call := func() {
		if _, err := h.Call(context.Background(), "ext_x_greet", map[string]any{"name": "Ada"}); err != nil {
			t.Error(err)
		}
	}
	call()
	untapped := testing.AllocsPerRun(200, call)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	seen := make(chan struct{}, 1)
	go func() {
		defer close(done)
		for range h.Admin().Tap(ctx, "x") {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	}()
	hosttest.Eventually(t, "it is tapped", func() bool { call(); return len(seen) > 0 })
	tapped := testing.AllocsPerRun(200, call)
	stop()
	<-done
	// a collection empties the pools, and the race detector drops some of what is put there
	hosttest.Eventually(t, "a call allocates as often as before", func() bool {
		after := testing.AllocsPerRun(200, call)
		t.Logf("allocations of a call: %v, tapped %v, afterwards %v", untapped, tapped, after)
		return after <= untapped+1
	})
}
