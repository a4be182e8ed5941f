package storm

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// crowd returns a folder of n small extensions.
func crowd(t testing.TB, n int, activation string) *hosttest.Folder {
	f := hosttest.NewFolder(t)
	for i := range n {
		f.Add(fmt.Sprintf("x%04d", i), fmt.Sprintf(`[capabilities]
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

// visited is a host over a crowd that was opened and closed.
type visited struct {
	open, took, computed time.Duration // until it was ready, with its end, and what the host itself computed
	running              int           // extensions that had a process once it was open
}

// visit opens a host over a crowd of n and closes it.
func visit(t *testing.T, f *hosttest.Folder, n int, state string) (v visited) {
	t.Helper()
	used, began := cpuTime(t), time.Now()
	h, err := exthost.Open(context.Background(), f.Config(),
		exthost.Options{StateDir: state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	v.open = time.Since(began)
	for _, x := range h.Status().Extensions {
		if len(x.Instances) > 0 && x.Instances[0].PID > 0 {
			v.running++
		}
	}
	listed := len(hosttest.Names(h))
	began = time.Now()
	if err := h.Close(); err != nil {
		t.Errorf("with %d extensions: %v", n, err)
	}
	v.took, v.computed = v.open+time.Since(began), cpuTime(t)-used
	if listed != n && v.running == n {
		t.Errorf("%d tools of %d extensions", listed, n)
	}
	return v
}

// known returns a crowd whose tools a host knows. A host with too few file descriptors for all of them learns the
// rest at its next start.
func known(t *testing.T, n int) (f *hosttest.Folder, state string) {
	f, state = crowd(t, n, "lazy"), t.TempDir()
	for range 5 {
		if visit(t, f, n, state).running == 0 {
			return f, state
		}
	}
	t.Fatalf("the tools of %d extensions are not all known", n)
	return nil, ""
}

// cpuTime returns the processor time of this process without its children.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestStartScales checks that the time per extension, for the start and the end of a host together, does not grow
// with the number of extensions.
func TestStartScales(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector would be measured")
	}
	processtest.Leaks(t)
	for _, activation := range []string{"eager", "lazy"} {
		sizes := stormtest.Sized([]int{4, 8}, []int{100, 400})
		stormtest.Claim(t, activation+": the time of an extension among the most to that among the fewest", 2.0,
			func() (float64, string) {
				var each []time.Duration
				for _, n := range sizes {
					v := visit(t, crowd(t, n, activation), n, t.TempDir())
					if v.running != n {
						t.Errorf("%d of %d extensions run", v.running, n)
					}
					each = append(each, v.took/time.Duration(n))
				}
				return ratio(each[1], each[0]), fmt.Sprintf("%v each of %v", each, sizes)
			})
	}
}

// TestKnownStartScales starts hosts with lazy extensions whose descriptors are known, so that no process starts: one
// thousand are ready within two seconds, and with five thousand each takes no longer.
func TestKnownStartScales(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector would be measured")
	}
	processtest.Leaks(t)
	few, many := stormtest.Sized(4, 1000), stormtest.Sized(8, 5000)
	f, state := known(t, few)
	g, other := known(t, many)
	var open stormtest.Durations
	stormtest.Claim(t, fmt.Sprintf("the time of one of %d known extensions to that of one of %d", many, few), 1.2,
		func() (float64, string) {
			var small, big, computed stormtest.Durations
			for range stormtest.Sized(1, 5) {
				a, b := visit(t, f, few, state), visit(t, g, many, other)
				if a.running+b.running > 0 {
					t.Errorf("%d and %d processes", a.running, b.running)
				}
				open = append(open, a.open)
				small, big, computed = append(small, a.took/time.Duration(few)), append(big,
					b.took/time.Duration(many)), append(computed, b.computed/time.Duration(many))
			}
			return ratio(big.Quantile(0.5),
					small.Quantile(0.5)), fmt.Sprintf("%v and %v each, of which the host computes %v",
					small.Quantile(0.5),
					big.Quantile(0.5), computed.Quantile(0.5))
		})
	stormtest.Claim(t, fmt.Sprintf("the start of %d known extensions", few), 2*time.Second,
		func() (time.Duration, string) {
			return open.Quantile(0.5), open.String()
		})
}

func ratio(a, b time.Duration) float64 { return rounded(float64(a) / float64(b)) }

// TestManySleep compares how often the threads of a host with many idle extensions wake up with those of a Go
// program that only waits for its stdin.
func TestManySleep(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector wakes up too")
	}
	program := subject(t)
	processtest.Leaks(t)
	f := manySubjects(t, program)
	window := stormtest.Sized(time.Second, time.Minute)
	stormtest.Claim(t, fmt.Sprintf("wake-ups of a host with %d idle extensions in a second", many), 2.0,
		func() (float64, string) {
			n := wakeUps(t, window, "host "+f.Dir, "out waits; eof")
			return rounded(n[0]), fmt.Sprintf("%.2f of a program that only waits; over %v", n[1], window)
		})
}

// wakeUps returns how often per second the threads of idle scripted programs wake up, measured at the same time.
func wakeUps(t *testing.T, window time.Duration, scripts ...string) (each []float64) {
	var pids []int
	for _, script := range scripts {
		path, env := processtest.Script(t, script)
		cmd := exec.Command(path)
		cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
		in, out := processtest.Piped(t, cmd)
		if _, err := out.ReadString('\n'); err != nil {
			t.Errorf("%s did not start: %v", script, err)
		}
		defer func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", script, err)
			}
		}()
		pids = append(pids, cmd.Process.Pid)
	}
	<-time.After(window / 20) // what the start has left to do
	for _, pid := range pids {
		each = append(each, -float64(waits(t, pid)))
	}
	<-time.After(window)
	for i, pid := range pids {
		each[i] = (each[i] + float64(waits(t, pid))) / window.Seconds()
	}
	return each
}

// waits returns the number of voluntary context switches of a process's threads.
func waits(t *testing.T, pid int) (n int) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, path := range threads {
		status, _ := os.ReadFile(path) // a thread may have ended
		_, after, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		var one int
		_, _ = fmt.Sscan(after, &one)
		n += one
	}
	return n
}

// Failed extensions are restarted in parallel: a start that hangs delays no other.
func TestRetriedTogether(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	pipe := filepath.Join(f.Dir, "pipe")
	for id, meet := range map[string]string{"reads": "read -r word < ../pipe", "writes": "echo met > ../pipe"} {
		f.Add(id, "[capabilities]\ntools = [\"greet\", \"part\"]\n[transport]\nscript = \"x.sh\"\n")
		f.Write(id+"/x.sh", "#!/bin/sh\n[ -e ../pipe ] || exit 3\n"+meet+"\n"+hosttest.Scripted)
		f.Write(id+"/tools.json", hosttest.TwoTools)
	}
	h := f.Open(exthost.Options{})
	if err := unix.Mkfifo(pipe, 0o600); err != nil { // opens for both ends together, and for neither alone
		t.Fatal(err)
	}
	change, err := h.Admin().Reload(hosttest.Deadline(t))
	if err != nil || !slices.Equal(change.Retried, []string{"reads", "writes"}) || len(change.Failed) > 0 {
		t.Errorf("%+v, %v", change, err)
	}
}
