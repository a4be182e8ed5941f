package storm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// rounded returns x with two decimals.
func rounded(f float64) float64 { return math.Round(100*f) / 100 }

// randomly returns a source with the seed of EXTHOST_STORM_SEED, else with a random one. It logs the seed.
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

// subject returns the program of the tested extension. The first call builds it.
func subject(t testing.TB) string {
	t.Helper()
	dir, err := buildSubject()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "subject")
}

var buildSubject = sync.OnceValues(func() (string, error) {
	return processtest.Build("-race=false", "-ldflags=-w", "./test/storm/testdata/subject")
})

// runs returns a manifest's [transport] that runs a program, and the tools of the subject.
func runs(program string, args ...string) string {
	return fmt.Sprintf("[capabilities]\ntools = [\"echo\", \"wait\", \"record\"]\n[transport]\ncommand = %q\nargs = "+
		"[%s]\n",
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

// kill kills pid if it is still a child of this process, and reports whether it did.
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

// outcome is how a call ended.
type outcome byte

const (
	answered  outcome = iota // with its own nonce
	uncertain                // it failed after it was sent
	unsent                   // it failed before
	wrong                    // anything else
)

// ledger records how the calls of one extension ended. Each call carries a nonce, its caller and its number. The
// extension writes the nonce to a journal before it answers with it.
type ledger [stormCallers][]outcome

// call makes a caller's next call. It may end with an answer, or with one of kinds.
func (l *ledger) call(t *testing.T, h *exthost.Host, id string, caller int, r *rand.Rand, kinds ...protocol.Kind) {
	nonce := fmt.Sprintf("%d.%d", caller, len(l[caller]))
	result, err := h.Call(context.Background(), "ext_"+id+"_record",
		map[string]any{"nonce": nonce, "micros": r.IntN(4) * r.IntN(500)})
	o := wrong
	switch e, _ := errors.AsType[*protocol.Error](err); {
	case err == nil && result.Text() == nonce:
		o = answered
	case e != nil && slices.Contains(kinds, e.Kind) && e.Outcome == "unknown":
		o = uncertain
	case e != nil && slices.Contains(kinds, e.Kind):
		o = unsent
	default:
		t.Errorf("%s: %s got %s, %v", id, nonce, result, err)
	}
	l[caller] = append(l[caller], o)
}

// tally counts outcomes.
type tally [wrong + 1]int

func (c tally) String() string {
	return fmt.Sprintf("%d calls answered, %d failed after they were sent, %d before", c[answered], c[uncertain],
		c[unsent])
}

// reconcile checks the ledger against the journal: an answered call ran once, a failed one at most once, and one
// that was reported as unsent never.
func (l *ledger) reconcile(t *testing.T, journal string) (count tally) {
	t.Helper()
	ran := make(map[[2]int]int)
	for _, nonce := range entriesOf(t, journal) {
		var caller, n int
		if _, err := fmt.Sscanf(nonce, "%d.%d", &caller, &n); err != nil || caller >= len(l) || n >= len(l[caller]) {
			t.Errorf("%s: %q was never called", journal, nonce)
			continue
		}
		ran[[2]int{caller, n}]++
	}
	for caller, outcomes := range l {
		for n, o := range outcomes {
			count[o]++
			if times := ran[[2]int{caller, n}]; times > 1 || o == answered && times == 0 || o == unsent && times > 0 {
				t.Errorf("%s: %d.%d, of outcome %d, ran %d times", journal, caller, n, o, times)
			}
		}
	}
	return count
}

// entriesOf returns the entries of a journal.
func entriesOf(t *testing.T, journal string) []string {
	t.Helper()
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Error(err)
	}
	return stormtest.WholeEntries(string(data))
}

// storm calls extensions while their processes are killed all the time.
type storm struct {
	t       *testing.T
	h       *exthost.Host
	pid     func(i int) int // of the process to kill next, of extension i; 0: there is none
	ends    []protocol.Kind // that a call may come to
	left    atomic.Int64    // kills
	done    chan struct{}
	ledgers [stormExtensions]ledger
}

// rage kills that many processes, closes the host, checks the outcomes of the calls against the journals, and
// returns them.
func (s *storm) rage(kills int, random func() *rand.Rand, state string) (all tally) {
	s.t.Helper()
	s.done = make(chan struct{})
	s.left.Store(int64(kills))
	began := time.Now()
	var killers, callers sync.WaitGroup
	for i := range stormExtensions {
		r := random()
		killers.Go(func() { s.kill(i, r) })
		for j := range stormCallers {
			r := random()
			callers.Go(func() { s.call(i, j, r) })
		}
	}
	killers.Wait()
	close(s.done)
	callers.Wait()
	took := time.Since(began)
	if err := s.h.Close(); err != nil {
		s.t.Error(err)
	}
	for i := range stormExtensions {
		for o, n := range s.ledgers[i].reconcile(s.t, journalOf(state, i)) {
			all[o] += n
		}
	}
	s.t.Logf("%d kills in %v: %v; load %s", kills, took.Round(time.Millisecond), all, stormtest.Load())
	return all
}

func stormID(i int) string { return fmt.Sprintf("subject%d", i) }

func journalOf(state string, i int) string { return filepath.Join(state, stormID(i), "journal") }

// moments bound the life of a process before it is killed: up to its handshake, or well into its calls.
var moments = []time.Duration{4 * time.Millisecond, 20 * time.Millisecond}

// kill kills one process after another.
func (s *storm) kill(i int, r *rand.Rand) {
	last := 0
	for s.left.Add(-1) >= 0 {
		for killed := false; !killed; {
			var pid int
			hosttest.Eventually(s.t, "there is something to kill about "+stormID(i),
				func() bool { pid = s.pid(i); return pid != 0 && pid != last })
			<-time.After(time.Duration(r.Int64N(int64(moments[r.IntN(len(moments))]))))
			killed, last = kill(pid), pid
		}
	}
}

// call makes calls until the storm is over.
func (s *storm) call(extension, caller int, r *rand.Rand) {
	for {
		select {
		case <-s.done:
			return
		default:
			s.ledgers[extension].call(s.t, s.h, stormID(extension), caller, r, s.ends...)
		}
	}
}

// TestKillStorm kills extensions at random moments, also during their start. Each call has one outcome, which agrees
// with the journals, and no process is left.
func TestKillStorm(t *testing.T) {
	kills := stormtest.Sized(30, 10_000)
	if stormtest.Racing() {
		kills = stormtest.Sized(30, 2_000)
	}
	program := subject(t)
	processtest.Leaks(t)
	random := randomly(t)
	f, state := hosttest.NewFolder(t), t.TempDir()
	for i := range stormExtensions {
		f.Add(stormID(i), runs(program)+tireless)
	}
	h := f.Open(exthost.Options{StateDir: state})
	s := &storm{
		t:    t,
		h:    h,
		pid:  func(i int) int { return hosttest.PidOf(t, h, stormID(i)) },
		ends: []protocol.Kind{protocol.ChildExited},
	}
	if all := s.rage(kills, random, state); all[answered] == 0 || all[uncertain] == 0 {
		t.Error("no storm")
	}
}

// Hosts replace one another while calls are in flight, as at an upgrade. No call is lost: each is answered, or fails
// and says whether it may have run.
func TestHostsFollowOneAnother(t *testing.T) {
	program := subject(t)
	processtest.Leaks(t)
	random := randomly(t)
	f, state := hosttest.NewFolder(t).Add("x", runs(program)), t.TempDir()
	open := func() *exthost.Host { return f.Open(exthost.Options{StateDir: state}) }
	var current atomic.Pointer[exthost.Host]
	current.Store(open())
	var l ledger
	var callers sync.WaitGroup
	done := make(chan struct{})
	for i := range stormCallers {
		r := random()
		callers.Go(func() {
			beat := time.NewTicker(time.Millisecond / 2)
			defer beat.Stop()
			for {
				select {
				case <-done:
					return
				case <-beat.C:
					l.call(t, current.Load(), "x", i, r, protocol.ShuttingDown)
				}
			}
		})
	}
	for i := range stormtest.Sized(10, 100) {
		if i%2 == 0 { // the next one is there already
			next := open()
			if err := current.Swap(next).Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err := current.Load().Close(); err != nil {
			t.Error(err)
		}
		current.Store(open())
	}
	close(done)
	callers.Wait()
	if err := current.Load().Close(); err != nil {
		t.Error(err)
	}
	count := l.reconcile(t, filepath.Join(state, "x", "journal"))
	if count[answered] == 0 || count[unsent] == 0 {
		t.Error("no calls met an end")
	}
	t.Log(count)
}
