package exthost_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/protocol"
)

// storming says that tests run at their full size, and hold what the product
// claims about time against the clock: a machine that has nothing else to do.
var storming = os.Getenv("EXTHOST_STORM") != ""

// racing says that the race detector is in this binary.
var racing = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
})

// sized is how many rounds a storm has.
func sized(calm, storm int) int {
	if storming {
		return storm
	}
	return calm
}

// randomly returns a source whose seed EXTHOST_STORM_SEED gives, else chance, and
// which a failed test names.
func randomly(t testing.TB) func() *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("EXTHOST_STORM_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("EXTHOST_STORM_SEED=%d", seed)
	var streams atomic.Uint64
	return func() *rand.Rand { return rand.New(rand.NewPCG(seed, streams.Add(1))) }
}

// subject builds the extension that the storms are about.
func subject(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "subject")
	if out, err := exec.Command("go", "build", "-race=false", "-o", path, "./testdata/subject").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// runs is a manifest's [transport] that runs a program, with the tools of the subject.
func runs(program string, args ...string) string {
	return fmt.Sprintf("[capabilities]\ntools = [\"echo\", \"wait\", \"record\"]\n[transport]\ncommand = %q\nargs = [%s]\n",
		program, strings.Join(quoted(args), ", "))
}

func quoted(list []string) (out []string) {
	for _, s := range list {
		out = append(out, strconv.Quote(s))
	}
	return out
}

// tireless is a [runtime.restart] that never gives up and never waits.
const tireless = "[runtime.restart]\nmax_attempts = -1\nbase_backoff = \"0s\"\n"

// pidOf returns the process of an extension's one instance, 0 while there is none.
func pidOf(h *exthost.Host, id string) int {
	for _, x := range h.Status().Extensions {
		if x.ID == id && len(x.Instances) > 0 {
			return x.Instances[0].PID
		}
	}
	return 0
}

// kill kills pid if that is our child, and not, by now, somebody else.
func kill(pid int) (killed bool) {
	p, err := os.FindProcess(pid) // from here on p is one process, dead or alive
	if err != nil {
		return false
	}
	defer p.Release()
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ") // the name has no such thing in it
	f := strings.Fields(after)
	return len(f) > 1 && f[0] != "Z" && f[1] == strconv.Itoa(os.Getpid()) && p.Kill() == nil
}

const (
	stormExtensions = 8
	stormCallers    = 8 // of each
)

// killStorm has callers call extensions that are killed all the time. Each call
// carries a nonce of its own, which its extension writes to a journal before it
// answers with it.
type killStorm struct {
	t     *testing.T
	h     *exthost.Host
	left  atomic.Int64 // kills
	done  chan struct{}
	calls [stormExtensions][stormCallers][]outcome // by nonce
}

// outcome is what a call came to.
type outcome byte

const (
	answered  outcome = iota // with its own nonce
	uncertain                // it failed after it was sent
	unsent                   // it failed before
	wrong                    // anything else
)

// TestR1KillStorm kills extensions at random moments, those of their start among
// them. Each call has one outcome; one that was answered ran once, one that
// failed at most once, one that says it was never sent never; nothing is left.
func TestR1KillStorm(t *testing.T) {
	kills := sized(100, 10_000)
	if racing() {
		kills = sized(50, 2_000)
	}
	program := subject(t)
	processtest.Leaks(t)
	random := randomly(t)
	f, state := newFolder(t), t.TempDir()
	for i := range stormExtensions {
		f.add(stormID(i), runs(program)+tireless)
	}
	s := &killStorm{t: t, h: f.open(exthost.Options{StateDir: state}), done: make(chan struct{})}
	s.left.Store(int64(kills))
	began := time.Now()
	var killers, callers sync.WaitGroup
	for i := range stormExtensions {
		r := random()
		killers.Go(func() { s.kill(stormID(i), r) })
		for j := range stormCallers {
			r := random()
			callers.Go(func() { s.calls[i][j] = s.call(i, j, r) })
		}
	}
	killers.Wait()
	close(s.done)
	callers.Wait()
	took := time.Since(began)
	if err := s.h.Close(); err != nil {
		t.Error(err)
	}
	s.reconcile(state, kills, took)
}

func stormID(i int) string { return fmt.Sprintf("subject%d", i) }

// moments bound how long a process may live: to its handshake, or well into its calls.
var moments = []time.Duration{4 * time.Millisecond, 20 * time.Millisecond}

// kill kills one process of an extension after another.
func (s *killStorm) kill(id string, r *rand.Rand) {
	last := 0
	for s.left.Add(-1) >= 0 {
		for killed := false; !killed; {
			var pid int
			eventually(s.t, id+" lives", func() bool { pid = pidOf(s.h, id); return pid != 0 && pid != last })
			<-time.After(time.Duration(r.Int64N(int64(moments[r.IntN(len(moments))]))))
			killed, last = kill(pid), pid
		}
	}
}

// call calls until the storm is over.
func (s *killStorm) call(extension, caller int, r *rand.Rand) (outcomes []outcome) {
	ctx := deadlineOf(s.t, 10*time.Minute)
	for {
		select {
		case <-s.done:
			return outcomes
		default:
		}
		nonce := fmt.Sprintf("%d.%d.%d", extension, caller, len(outcomes))
		result, err := s.h.Call(ctx, "ext_"+stormID(extension)+"_record", map[string]any{"nonce": nonce, "micros": r.IntN(4) * r.IntN(500)})
		e, _ := errors.AsType[*protocol.Error](err)
		switch {
		case err == nil && result.Text() == nonce:
			outcomes = append(outcomes, answered)
		case e != nil && e.Kind == protocol.ChildExited && e.Outcome == "unknown":
			outcomes = append(outcomes, uncertain)
		case e != nil && e.Kind == protocol.ChildExited:
			outcomes = append(outcomes, unsent)
		default:
			s.t.Errorf("%s got %s, %v", nonce, result, err)
			outcomes = append(outcomes, wrong)
		}
	}
}

// reconcile holds the outcomes against the journals.
func (s *killStorm) reconcile(state string, kills int, took time.Duration) {
	var count [wrong + 1]int
	for i := range stormExtensions {
		var ran [stormCallers][]int
		for j, outcomes := range s.calls[i] {
			ran[j] = make([]int, len(outcomes))
		}
		for nonce := range lines(s.t, filepath.Join(state, stormID(i), "journal")) {
			var extension, caller, n int
			if _, err := fmt.Sscanf(nonce, "%d.%d.%d", &extension, &caller, &n); err != nil || extension != i || n >= len(ran[caller]) {
				s.t.Errorf("%s ran %q", stormID(i), nonce)
				continue
			}
			ran[caller][n]++
		}
		for j, outcomes := range s.calls[i] {
			for n, o := range outcomes {
				count[o]++
				if times := ran[j][n]; times > 1 || o == answered && times == 0 || o == unsent && times > 0 {
					s.t.Errorf("%d.%d.%d, of outcome %d, ran %d times", i, j, n, o, times)
				}
			}
		}
	}
	if count[answered] == 0 || count[uncertain] == 0 {
		s.t.Error("no storm")
	}
	s.t.Logf("%d kills in %v: %d calls answered, %d failed after they were sent, %d before; load %s",
		kills, took.Round(time.Millisecond), count[answered], count[uncertain], count[unsent], load())
}

// lines yields the whole lines of a file; what was cut short by a kill is none.
func lines(t testing.TB, name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan() && yield(s.Text()); {
		}
	}
}

// deadlineOf bounds what a storm may take.
func deadlineOf(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
