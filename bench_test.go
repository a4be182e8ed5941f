package exthost_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// echoManifest is the manifest of a Go extension as an author builds it. The test binary as a child would link
// the packages of a host, and its garbage collector would scan their data.
func echoManifest(b testing.TB) string {
	dir, err := processtest.Build("./testdata/echo")
	if err != nil {
		b.Fatal(err)
	}
	return hosttest.BenchTools + fmt.Sprintf("[transport]\ncommand = %q\n", filepath.Join(dir, "echo"))
}

// benchCall returns a call of an extension with the load.
func benchCall(b testing.TB, manifest string, l benchtest.Load) func() error {
	h := hosttest.NewFolder(b).Add("bench", manifest).Open(exthost.Options{})
	if err := h.Ready(hosttest.Deadline(b)); err != nil {
		b.Fatal(err)
	}
	tool, args := "ext_bench_echo", fmt.Sprintf(`{"text":%s}`, benchtest.Text(l.Up))
	if l.Up != l.Down {
		tool, args = "ext_bench_write", fmt.Sprintf(`{"size":%d,"text":%s}`, l.Down, benchtest.Text(l.Up))
	}
	raw := json.RawMessage(args)
	return func() error {
		r, err := h.Call(b.Context(), tool, raw)
		if err == nil && len(r) < l.Down {
			err = errors.New("a result of the wrong size")
		}
		return err
	}
}

// BenchmarkHostCall compares Host.Call to a Go extension with the floor.
func BenchmarkHostCall(b *testing.B) {
	manifest := echoManifest(b)
	for _, l := range benchtest.Loads() {
		b.Run(l.Name, func(b *testing.B) {
			l.Compare(b, l.Floor(b), benchtest.Way{Name: "call", Call: benchCall(b, manifest, l)})
		})
	}
}

// BenchmarkCall measures time and allocations of sequential calls in the host. The child is always the same
// program.
func BenchmarkCall(b *testing.B) {
	call := benchCall(b, echoManifest(b), benchtest.Sequential)
	b.ReportAllocs()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCallAllocations bounds the allocations of a sequential call: garbage collection is a third of the cost of a
// call.
func TestCallAllocations(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector allocates too")
	}
	call := benchCall(t, hosttest.BenchManifest, benchtest.Sequential)
	got := testing.AllocsPerRun(2000, func() {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	})
	if got > 5 {
		t.Errorf("a call makes %.0f allocations, want at most 5", got)
	}
}

// BenchmarkIdle measures an idle Go extension in the host, as the difference between hosts with 120 and with 20
// of them.
func BenchmarkIdle(b *testing.B) {
	const few, more = 20, 100
	small, large := hosttest.NewFolder(b), hosttest.NewFolder(b)
	for i := range few + more {
		if i < few {
			small.Add(fmt.Sprintf("idle%d", i), hosttest.BenchManifest)
		}
		large.Add(fmt.Sprintf("idle%d", i), hosttest.BenchManifest)
	}
	for b.Loop() {
		memory, stacks, goroutines := idle(b, small)
		memory2, stacks2, goroutines2 := idle(b, large)
		b.ReportMetric(float64(memory2-memory)/more, "B/extension")
		b.ReportMetric(float64(stacks2-stacks)/more, "stack-B/extension")
		b.ReportMetric(float64(goroutines2-goroutines)/more, "goroutines/extension")
	}
	b.ReportMetric(0, "ns/op")
}

// idle returns the anonymous memory, the part of it in goroutine stacks, and the goroutines of this process while
// a host of f is idle.
func idle(b *testing.B, f *hosttest.Folder) (memory, stacks, goroutines int) {
	h := f.Open(exthost.Options{})
	if err := h.Ready(hosttest.Deadline(b)); err != nil {
		b.Fatal(err)
	}
	memory, goroutines = anonymous(b), runtime.NumGoroutine()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
	return memory, int(m.StackInuse), goroutines
}

// anonymous returns this process's anonymous resident memory in bytes.
func anonymous(b *testing.B) int {
	runtime.GC()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Skip(err)
	}
	return kib << 10
}

// verbs are the steps of scripted children.
var verbs = map[string]processtest.Verb{
	"sdk":     func(string) { processtest.Exit(hosttest.Extension().Main()) },
	"mcp":     func(string) { hosttest.ServeMCP() },
	"floor":   benchtest.FloorVerb,
	"bench":   func(string) { processtest.Exit(hosttest.BenchExtension().Main()) },
	"builder": func(string) { processtest.Exit(builder().Main()) },
}

func TestMain(m *testing.M) { hosttest.Main(m, verbs) }
