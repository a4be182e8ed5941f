// Package processtest helps to test with real processes: it looks for what a
// test left behind, and turns the test binary into a scripted child.
package processtest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// settle is how long what is on its way out may take to be gone.
const settle = 2 * time.Second

// Leaks fails the test if, two seconds after its other cleanups, it has left a
// goroutine, a descriptor, a child or a grandchild; left processes are killed.
// Call it first in a test that does not run in parallel.
//
// On Linux the test process becomes the reaper of its orphans, so that not even
// a grandchild in a session of its own goes unseen. Elsewhere only goroutines
// are looked at.
func Leaks(t testing.TB) {
	t.Helper()
	adoptOrphans(t)
	before := inventory()
	t.Cleanup(func() {
		t.Helper()
		left := leftovers(before)
		for _, what := range left {
			t.Errorf("left behind: %s", what)
		}
		if len(left) > 0 {
			killChildren(before)
		}
	})
}

// leftovers polls, because the end of a goroutine or process cannot be awaited
// from outside.
func leftovers(before map[string]string) []string {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(settle); ; <-tick.C {
		now := inventory()
		maps.DeleteFunc(now, func(key, _ string) bool { _, known := before[key]; return known })
		if len(now) == 0 || time.Now().After(deadline) {
			return slices.Sorted(maps.Values(now))
		}
	}
}

// inventory maps what there is to a description of it.
func inventory() map[string]string {
	all := make(map[string]string)
	addGoroutines(all)
	addDescriptors(all)
	addProcesses(all)
	return all
}

func addGoroutines(all map[string]string) {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*n)
		n = runtime.Stack(buf, true)
	}
	for stack := range strings.SplitSeq(string(buf[:n]), "\n\n") {
		// The goroutine of os/signal starts on demand and stays for ever.
		if strings.Contains(stack, "os/signal.") || strings.Contains(stack, "runtime.ensureSigM") {
			continue
		}
		var id int
		if _, err := fmt.Sscanf(stack, "goroutine %d", &id); err == nil {
			all[fmt.Sprint("goroutine ", id)] = stack
		}
	}
}
