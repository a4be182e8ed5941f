package exthost

import (
	"fmt"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

func TestFuse(t *testing.T) {
	exit := 3
	died := protocol.Errorf(protocol.ChildExited, "it died")
	died.Evidence = &protocol.Evidence{ExitCode: &exit, Stderr: []string{"last words"}}
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }

	t.Run("three in a row", func(t *testing.T) {
		var f fuse
		for i := range 3 {
			if err := f.admit(at(time.Duration(i) * time.Second)); err != nil {
				t.Fatalf("after %d failures: %v", i, err)
			}
			f.failed(at(time.Duration(i)*time.Second), died)
		}
		blown := 2 * time.Second
		e, ok := f.refuses(at(blown)).(*protocol.Error)
		if !ok || e.RetryAfter != fuseRetry || e.Evidence != died.Evidence {
			t.Fatalf("refused with %+v", e)
		}
		if f.admit(at(blown+fuseRetry-1)) == nil {
			t.Error("a call goes through before the time")
		}
		if err := f.admit(at(blown + fuseRetry)); err != nil {
			t.Errorf("the probe: %v", err)
		}
		if f.admit(at(blown+fuseRetry)) == nil {
			t.Error("a second call goes through beside the probe")
		}
		f.failed(at(blown+fuseRetry+time.Second), died)
		if f.admit(at(blown+2*fuseRetry)) == nil || f.admit(at(blown+2*fuseRetry+time.Second)) != nil {
			t.Error("a probe that fails is not followed by another after the same time")
		}
	})
	t.Run("three in more than five minutes", func(t *testing.T) {
		var f fuse
		for i := range 6 {
			now := at(time.Duration(i) * fuseWindow / 2)
			if err := f.admit(now); err != nil {
				t.Fatalf("failure %d: %v", i, err)
			}
			f.failed(now, died)
		}
	})
	t.Run("a success", func(t *testing.T) {
		var f fuses
		for range 3 {
			f.failed(start, "a", died)
		}
		if f.admit(start, "a", true) == nil || f.admit(start, "b", false) != nil {
			t.Error("the failures of one are not its own")
		}
		f.mended("a", starts)
		if err := f.admit(start, "a", true); err != nil {
			t.Errorf("after a success: %v", err)
		}
	})
	t.Run("starts", func(t *testing.T) {
		var f fuses
		for range 3 {
			f.failed(start, starts, died)
		}
		if f.refuses(start, "a", false) == nil {
			t.Error("a fourth start is allowed")
		}
		if err := f.admit(start, "b", true); err != nil {
			t.Errorf("what runs is refused: %v", err)
		}
	})
	t.Run("many", func(t *testing.T) {
		var f fuses
		for i := range 2 * maxFuses {
			f.failed(start, fmt.Sprint(i), died)
		}
		if len(f.byKey) > maxFuses {
			t.Errorf("%d keys are remembered", len(f.byKey))
		}
	})
}
