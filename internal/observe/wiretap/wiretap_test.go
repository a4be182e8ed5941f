package wiretap

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/status"
)

func TestFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(func(s string) string { return strings.ReplaceAll(s, "canary", "***") })
		x, y := h.Wire("x"), h.Wire("y")
		if x.Tapped() {
			t.Error("tapped by nobody")
		}
		x.Show(1, true, []byte("nobody looks"))
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for f := range h.Frames(t.Context(), "x") {
				got = append(got, f.Text)
			}
		}()
		synctest.Wait()
		if !x.Tapped() {
			t.Error("not tapped")
		}
		y.Show(2, true, []byte("of y"))
		x.Show(1, true, []byte("a canary"))
		x.Show(1, false, []byte("b"))
		synctest.Wait()
		h.Close()
		<-done
		if strings.Join(got, "|") != "a ***|b" {
			t.Errorf("%q", got)
		}
		if x.Tapped() {
			t.Error("tapped after the end")
		}
		for range h.Frames(t.Context(), "") {
			t.Error("a frame of a closed hub")
		}
	})
}

// The headers by which a caller authenticates are masked.
func TestHeadersAreMasked(t *testing.T) {
	const ours = `{"jsonrpc":"2.0","id":1,"method":"governance/decide","params":{"flow":"request","headers":%,"request":{"headers":{"a":"b"}}}}`
	frame := func(headers string) string { return strings.Replace(ours, "%", headers, 1) }
	if got := string(withoutHeaders([]byte(frame(`{"authorization":"Bearer canary"}`)))); got !=
		frame(`{"authorization":"***"}`) {
		t.Error(got)
	}
	if got := string(withoutHeaders([]byte(frame(`{}`)))); got != frame(`{}`) {
		t.Error(got)
	}
}

// A long frame is cut, but not within a secret.
func TestLongFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(func(s string) string { return strings.ReplaceAll(s, "canary", "***") })
		long := strings.Repeat("l", maxText-3) + "canary" + strings.Repeat("l", maxText)
		go func() {
			synctest.Wait()
			h.Wire("x").Show(0, true, []byte(long))
			h.Close()
		}()
		n := 0
		for f := range h.Frames(t.Context(), "") {
			n++
			if len(f.Text) != maxText || !strings.HasSuffix(f.Text, "l***") || f.Cut != len(long)-maxText {
				t.Errorf("%d bytes, %d cut, ends in %q", len(f.Text), f.Cut, f.Text[len(f.Text)-8:])
			}
		}
		if n != 1 {
			t.Errorf("%d frames", n)
		}
	})
}

// A slow reader gets the number of lost frames.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(func(s string) string { return s })
		x := h.Wire("x")
		go func() {
			synctest.Wait()
			x.Show(0, true, []byte("first"))
			synctest.Wait()
			for range concurrent.MaxQueuedItems + 7 {
				x.Show(0, true, []byte("flood"))
			}
			time.Sleep(2 * time.Second) // virtual time; then the reader reads again
			x.Show(0, true, []byte("last"))
			h.Close()
		}()
		var got []status.Frame
		for f := range h.Frames(t.Context(), "") {
			if got = append(got, f); len(got) == 1 {
				time.Sleep(time.Second)
			}
		}
		if len(got) != concurrent.MaxQueuedItems+2 || got[len(got)-1].Lost != 7 {
			t.Errorf("%d frames, the last is %+v", len(got), got[len(got)-1])
		}
	})
}

func TestNobodyPays(t *testing.T) {
	for _, w := range []*Wire{nil, New(nil).Wire("x")} {
		if n := testing.AllocsPerRun(100, func() {
			if w.Tapped() {
				t.Error("tapped")
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
	(*Wire)(nil).Show(0, true, nil)
}
