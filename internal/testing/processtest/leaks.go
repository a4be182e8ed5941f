// Package processtest helps to test with real processes: it finds goroutines, descriptors
// and processes that a test leaks, and runs the test binary as a scripted child.
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

// leakGrace is the time for goroutines and processes to end after a test, on a machine that is busy with others.
var leakGrace = 30 * time.Second

// Leaks fails the test if a goroutine, a descriptor, a child or a grandchild of the test
// still exists leakGrace after its other cleanups. It kills leaked processes. It must be
// the first call in a test that does not run in parallel.
//
// On Linux the test process becomes the reaper of its orphans, so that Leaks also sees
// grandchildren in other sessions. On other systems Leaks checks goroutines only.
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

// leftovers returns the descriptions of new items in the inventory after leakGrace. It
// polls, because the end of an unknown goroutine or process cannot be awaited.
func leftovers(before map[string]string) []string {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(leakGrace); ; <-tick.C {
		now := inventory()
		maps.DeleteFunc(now, func(key, _ string) bool { _, known := before[key]; return known })
		if len(now) == 0 || time.Now().After(deadline) {
			return slices.Sorted(maps.Values(now))
		}
	}
}

// inventory maps all goroutines, descriptors and children to a description.
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
		// The goroutine of os/signal starts on demand and never ends.
		if strings.Contains(stack, "os/signal.") || strings.Contains(stack, "runtime.ensureSigM") {
			continue
		}
		var id int
		if _, err := fmt.Sscanf(stack, "goroutine %d", &id); err == nil {
			all[fmt.Sprint("goroutine ", id)] = stack
		}
	}
}
