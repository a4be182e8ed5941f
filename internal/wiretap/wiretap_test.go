package wiretap

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
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

// A slow reader loses frames and hears how many; a long one is cut, and no secret with it.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(func(s string) string { return strings.ReplaceAll(s, "canary", "***") })
		x := h.Wire("x")
		ctx, stop := context.WithCancel(t.Context())
		frames := make(chan Frame)
		go func() {
			defer close(frames)
			for f := range h.Frames(ctx, "") {
				frames <- f
			}
		}()
		synctest.Wait()
		x.Show(0, true, []byte("first")) // which the reader takes and holds
		synctest.Wait()
		const extra = 7
		for range maxFrames + extra {
			x.Show(0, true, []byte("x"))
		}
		n, lost := 0, 0
		for range maxFrames + 1 {
			f := <-frames
			n, lost = n+1, lost+f.Lost
		}
		synctest.Wait()
		long := strings.Repeat("l", maxText-3) + "canary" + strings.Repeat("l", maxText)
		x.Show(0, true, []byte(long))
		f := <-frames
		if lost += f.Lost; n != maxFrames+1 || lost != extra {
			t.Errorf("%d frames and %d lost", n, lost)
		}
		if len(f.Text) != maxText || !strings.HasSuffix(f.Text, "l***") || f.Cut != len(long)-maxText {
			t.Errorf("%d bytes, %d cut, ends in %q", len(f.Text), f.Cut, f.Text[len(f.Text)-8:])
		}
		big := []byte(strings.Repeat("b", maxText))
		synctest.Wait()
		for range 2 * maxBytes / maxText {
			x.Show(0, true, big)
		}
		stop()
		for f := range frames {
			lost += f.Lost
		}
	})
}

// What is lost is one gap, also where some of the frames would still have fitted.
func TestOneGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(func(s string) string { return s })
		defer h.Close()
		frames := make(chan Frame)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			defer close(frames)
			for f := range h.Frames(ctx, "") {
				frames <- f
			}
		}()
		synctest.Wait()
		x, big := h.Wire("x"), []byte(strings.Repeat("b", maxText))
		const pairs = 2 * maxBytes / maxText
		x.Show(0, true, []byte("first"))
		synctest.Wait()
		for range pairs {
			x.Show(0, true, big)
			x.Show(0, false, []byte("small"))
		}
		gaps := func() (n int) {
			for {
				synctest.Wait()
				select {
				case f := <-frames:
					n += min(f.Lost, 1)
				default:
					return n
				}
			}
		}
		n := gaps()
		x.Show(0, true, []byte("last"))
		if n += gaps(); n != 1 {
			t.Errorf("%d gaps", n)
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
