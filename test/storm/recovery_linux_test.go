package storm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// The time from the death of a Go child until its successor can be called is bounded.
func TestRecovery(t *testing.T) {
	program := subject(t)
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", runs(program)+tireless+"healthy_after = \"0s\"\n").Open(exthost.Options{})
	stormtest.Claim(t, "p99 from kill to ready", 50*time.Millisecond, func() (time.Duration, string) {
		var took stormtest.Durations
		for range stormtest.Sized(5, 1000) {
			pid := hosttest.PidOf(t, h, "x")
			began := time.Now()
			if !kill(pid) {
				t.Fatalf("%d could not be killed", pid)
			}
			hosttest.Eventually(t, "the next one is ready", func() bool {
				x := hosttest.StatusOf(t, h, "x")
				next := x.Instances[0].PID
				return x.State == "ready" && next != pid && next != 0
			})
			took = append(took, time.Since(began))
		}
		return took.Quantile(0.99), took.String()
	})
}

// many is the number of extensions of a large host.
var many = stormtest.Sized(5, 100)

// manySubjects returns a folder of that many extensions.
func manySubjects(t *testing.T, program string) *hosttest.Folder {
	f := hosttest.NewFolder(t)
	for i := range many {
		f.Add(fmt.Sprintf("subject%02d", i), runs(program))
	}
	return f
}

// TestManyStart compares the start of a host with many extensions with a start of the same processes without a host,
// each until all have answered their first request. It alternates between the two.
func TestManyStart(t *testing.T) {
	program := subject(t)
	processtest.Leaks(t)
	f := manySubjects(t, program)
	stormtest.Claim(t, "start of a host to that of its processes", 4.0, func() (float64, string) {
		var bare, hosted stormtest.Durations
		for range stormtest.Sized(1, 5) {
			bare = append(bare, startBare(t, program))
			hosted = append(hosted, startHosted(t, f))
		}
		b, h := bare.Quantile(0.5), hosted.Quantile(0.5)
		return rounded(float64(h) / float64(b)), fmt.Sprintf("bare %v, hosted %v", b.Round(time.Millisecond),
			h.Round(time.Millisecond))
	})
}

func startHosted(t *testing.T, f *hosttest.Folder) time.Duration {
	began := time.Now()
	h, err := exthost.Open(context.Background(), f.Config(),
		exthost.Options{StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for _, x := range h.Status().Extensions {
		if x.State != "ready" {
			t.Errorf("%s is %s: %s", x.ID, x.State, x.Reason)
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	return took
}

// startBare starts the processes, as many at once as a host does.
func startBare(t *testing.T, program string) time.Duration {
	commands := make(chan *exec.Cmd, many)
	slots := make(chan struct{}, 16*runtime.GOMAXPROCS(0))
	state := t.TempDir()
	began := time.Now()
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			commands <- startOne(t, program, state)
		})
	}
	wg.Wait()
	took := time.Since(began)
	close(commands)
	for cmd := range commands {
		cmd.Process.Kill()
		cmd.Wait() // says that it was killed
	}
	return took
}

func startOne(t *testing.T, program, state string) *exec.Cmd {
	cmd := exec.Command(program)
	in, out := processtest.Piped(t, cmd)
	fmt.Fprintf(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocol_version":1,"state_dir":%q}}`+
		"\n", state)
	if _, err := out.ReadString('\n'); err != nil {
		t.Errorf("no answer: %v", err)
	}
	return cmd
}

func init() { verbs["host"] = serveHost }

// serveHost runs a host over dir. It reports when the extensions have started and the garbage of the starts is
// collected, and ends with its stdin.
func serveHost(dir string) {
	h, err := exthost.Open(context.Background(), (&hosttest.Folder{Dir: dir}).Config(),
		exthost.Options{StateDir: dir + "/state", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	for range 2 { // what a pool holds outlives one collection
		debug.FreeOSMemory() // the runtime would take minutes, and chance decides how much it has returned
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(m.HeapAlloc)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := h.Close(); err != nil {
		panic(err)
	}
}

// TestManyIdle compares the memory of a host with many idle extensions with that of a host with one, which includes
// the cost of the first. The live objects are the same in each run. The pages that hold them, and the stacks, depend
// on the order in which the extensions started and the collector ran: 65 KiB each on a quiet machine, over 80 on a
// busy one.
func TestManyIdle(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector's own memory would be measured")
	}
	program := subject(t)
	processtest.Leaks(t)
	one, f := hosttest.NewFolder(t).Add("first", runs(program)), manySubjects(t, program)
	claim := func(what string, limit int, of func(memory) int) {
		stormtest.Claim(t, "KiB of the host for each idle extension, "+what, limit, func() (int, string) {
			small, big := of(hostMemory(t, one.Dir)), of(hostMemory(t, f.Dir))
			return (big - small) / (many - 1), fmt.Sprintf("%d KiB with one, %d KiB with %d", small, big, many)
		})
	}
	claim("live objects", 30, func(m memory) int { return m.live })
	claim("anonymous pages", 100, func(m memory) int { return m.resident })
}

// memory is the private memory of a host, in KiB.
type memory struct {
	live     int // objects
	resident int // anonymous pages
}

// hostMemory returns the memory of a host over dir.
func hostMemory(t *testing.T, dir string) (m memory) {
	path, env := processtest.Script(t, "host "+dir)
	cmd := exec.Command(path)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	in, out := processtest.Piped(t, cmd)
	if _, err := fmt.Fscanln(out, &m.live); err != nil {
		t.Errorf("the host did not start: %v", err)
	}
	m.live >>= 10
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(after, &m.resident); err != nil {
		t.Error(err)
	}
	return m
}
