package bridge

import (
	"fmt"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

func TestBreaker(t *testing.T) {
	exit := 3
	died := protocol.Errorf(protocol.ChildExited, "it died")
	died.Evidence = &protocol.Evidence{ExitCode: &exit, Stderr: []string{"last words"}}
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }

	t.Run("three in a row", func(t *testing.T) {
		var f breaker
		for i := range 3 {
			if err := f.admit(at(time.Duration(i) * time.Second)); err != nil {
				t.Fatalf("after %d failures: %v", i, err)
			}
			f.recordFailure(at(time.Duration(i)*time.Second), died)
		}
		blown := 2 * time.Second
		e, ok := f.refusal(at(blown)).(*protocol.Error)
		if !ok || e.RetryAfter != cooldown || e.Evidence != died.Evidence {
			t.Fatalf("refused with %+v", e)
		}
		if f.admit(at(blown+cooldown-1)) == nil {
			t.Error("a call goes through before the time")
		}
		if err := f.admit(at(blown + cooldown)); err != nil {
			t.Errorf("the probe: %v", err)
		}
		if f.admit(at(blown+cooldown)) == nil {
			t.Error("a second call goes through beside the probe")
		}
		f.recordFailure(at(blown+cooldown+time.Second), died)
		if f.admit(at(blown+2*cooldown)) == nil || f.admit(at(blown+2*cooldown+time.Second)) != nil {
			t.Error("a probe that fails is not followed by another after the same time")
		}
	})
	t.Run("three in more than five minutes", func(t *testing.T) {
		var f breaker
		for i := range 6 {
			now := at(time.Duration(i) * failureWindow / 2)
			if err := f.admit(now); err != nil {
				t.Fatalf("failure %d: %v", i, err)
			}
			f.recordFailure(now, died)
		}
	})
	t.Run("a success", func(t *testing.T) {
		var f breakers
		for range 3 {
			f.recordFailure(start, "a", died)
		}
		if f.admit(start, "a", true) == nil || f.admit(start, "b", false) != nil {
			t.Error("the failures of one are not its own")
		}
		f.reset("a", starts)
		if err := f.admit(start, "a", true); err != nil {
			t.Errorf("after a success: %v", err)
		}
	})
	t.Run("starts", func(t *testing.T) {
		var f breakers
		for range 3 {
			f.recordFailure(start, starts, died)
		}
		if f.refusal(start, "a", false) == nil {
			t.Error("a fourth start is allowed")
		}
		if err := f.admit(start, "b", true); err != nil {
			t.Errorf("what runs is refused: %v", err)
		}
	})
	t.Run("many", func(t *testing.T) {
		var f breakers
		for i := range 2 * maxBreakers {
			f.recordFailure(start, fmt.Sprint(i), died)
		}
		if len(f.byKey) > maxBreakers {
			t.Errorf("%d keys are remembered", len(f.byKey))
		}
	})
}
