package egress

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A child that retries in a loop does not fill the log: its first attempt is recorded at once, and
// the number of the others every minute.
func TestRecordsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		list := newTally(func(a Attempt) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%q %q %d", a.Target, a.Refused, a.Times))
		})
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("%s: %s", when, diff)
			}
			told = nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go list.run(ctx)
		for range 1000 {
			list.add(Attempt{Target: "a:1", Refused: "no"})
		}
		expect("at once", `"a:1" "no" 1`)
		time.Sleep(interval)
		expect("a minute later", `"a:1" "no" 999`)
		list.add(Attempt{Target: "a:1", Refused: "no"})
		list.add(Attempt{Target: "a:1"})
		expect("another outcome", `"a:1" "" 1`)
		time.Sleep(interval)
		expect("two minutes later", `"a:1" "no" 1`)
		time.Sleep(interval)
		list.add(Attempt{Target: "a:1", Refused: "no"})
		expect("after a quiet minute", `"a:1" "no" 1`)
		for n := range 10 * maxKinds {
			list.add(Attempt{Target: fmt.Sprintf("b%d:1", n), Refused: "no"})
		}
		mu.Lock()
		if len(told) != maxKinds-1 {
			t.Errorf("%d targets are told apart", len(told))
		}
		told = nil
		mu.Unlock()
		time.Sleep(interval)
		expect("many targets", fmt.Sprintf(`"" "no" %d`, 9*maxKinds+1))
		cancel()
	})
}
