package exthost_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/internal/stormtest"
)

// crowd is a folder of n small extensions.
func crowd(t *testing.T, n int, activation string) *folder {
	f := newFolder(t)
	for i := range n {
		f.add(fmt.Sprintf("x%04d", i), fmt.Sprintf(`[capabilities]
tools = ["t"]
[transport]
command = "sh"
args = ["-c", %s]
[runtime]
activation = %q
`, "'''"+`while read -r line; do case $line in *initialize*) echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}';; esac; done`+"'''", activation))
	}
	return f
}

// visit opens a host over a crowd of n and closes it, and returns the time of both for each
// extension, and what the host itself computed meanwhile. running is how many extensions have
// a process once the host is open.
func visit(t *testing.T, f *folder, n int, state string, running int) (took, computed time.Duration) {
	t.Helper()
	used, began := cpuTime(t), time.Now()
	h, err := exthost.Open(context.Background(), f.config(), exthost.Options{StateDir: state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	open := time.Since(began)
	run := 0
	for _, x := range h.Status().Extensions {
		if len(x.Instances) > 0 && x.Instances[0].PID > 0 {
			run++
		}
	}
	if tools := len(names(h)); tools != n || run != running {
		t.Errorf("%d tools and %d processes of %d extensions, want %d processes", tools, run, n, running)
	}
	began = time.Now()
	if err := h.Close(); err != nil {
		t.Errorf("with %d extensions: %v", n, err)
	}
	return (open + time.Since(began)) / time.Duration(n), (cpuTime(t) - used) / time.Duration(n)
}

// cpuTime is the processor time of this process without its children.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestStartScales holds the time that each of many extensions takes, for the start and the end
// of a host together, against the time with few: it does not grow with their number. Of
// extensions that are known, no process starts.
func TestStartScales(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector would be measured")
	}
	processtest.Leaks(t)
	few := []int{4, 8}
	for _, tt := range []struct {
		name, activation string
		known            bool // from a start before
		sizes            []int
	}{
		{"eager", "eager", false, stormtest.Sized(few, []int{100, 400})},
		{"lazy", "lazy", false, stormtest.Sized(few, []int{100, 400, 1000})},
		{"lazy and known", "lazy", true, stormtest.Sized(few, []int{100, 400, 1000, 2000})},
	} {
		stormtest.Claim(t, tt.name+": the time of an extension among the most to that among the fewest", 2.0, func() (float64, string) {
			var each []time.Duration
			var how []string
			for _, n := range tt.sizes {
				f, state := crowd(t, n, tt.activation), t.TempDir()
				took, computed := visit(t, f, n, state, n)
				if tt.known {
					took, computed = visit(t, f, n, state, 0)
				}
				each = append(each, took)
				how = append(how, fmt.Sprintf("%d: %v each, %v computed by the host", n, took.Round(time.Microsecond), computed.Round(time.Microsecond)))
			}
			return rounded(float64(each[len(each)-1]) / float64(each[0])), strings.Join(how, "; ")
		})
	}
}

// Extensions that failed start again beside each other: one whose start hangs delays no other.
func TestRetriedTogether(t *testing.T) {
	processtest.Leaks(t)
	f := newFolder(t)
	pipe := filepath.Join(f.dir, "pipe")
	for id, meet := range map[string]string{"reads": "read -r word < ../pipe", "writes": "echo met > ../pipe"} {
		f.add(id, "[capabilities]\ntools = [\"greet\", \"part\"]\n[transport]\nscript = \"x.sh\"\n")
		f.write(id+"/x.sh", "#!/bin/sh\n[ -e ../pipe ] || exit 3\n"+meet+"\n"+scripted)
		f.write(id+"/tools.json", twoTools)
	}
	h := f.open(exthost.Options{})
	if err := unix.Mkfifo(pipe, 0o600); err != nil { // opens for both ends together, and for neither alone
		t.Fatal(err)
	}
	change, err := h.Admin().Reload(deadline(t))
	if err != nil || !slices.Equal(change.Retried, []string{"reads", "writes"}) || len(change.Failed) > 0 {
		t.Errorf("%+v, %v", change, err)
	}
}
