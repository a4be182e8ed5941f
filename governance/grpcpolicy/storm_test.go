package grpcpolicy_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// kills is the number of times the policy dies.
var kills = stormtest.Sized(100, 1_000)

// TestNoApprovalWithoutAnAnswer kills a policy at random moments while calls ask it.
// Every allowed call must be in the journal, which the policy writes before it answers, and
// rejected calls are never allowed.
func TestNoApprovalWithoutAnAnswer(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	const lanes = 4
	var wg sync.WaitGroup
	for id := range lanes {
		journal := filepath.Join(t.TempDir(), "journal")
		s := spec(t, "plugin journal="+journal)
		wg.Go(func() {
			l := &victim{t: t, id: id, random: rand.New(rand.NewPCG(uint64(id), 0))}
			for life := range kills / lanes {
				l.live(s, life)
			}
			l.check(journal)
		})
	}
	wg.Wait()
}

// victim is one policy that is killed and restarted, and its decisions.
type victim struct {
	t              *testing.T
	id             int
	random         *rand.Rand
	mu             sync.Mutex
	allowed        []string
	denied, failed int
}

// live asks one run of the policy from several callers until it has been killed.
func (l *victim) live(s governance.Spec, life int) {
	p := started(l.t, s)
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for n := 0; ; n++ {
				x := call("journal")
				// the policy denies every call of the second caller
				x.ID = fmt.Sprintf("%d.%d.%d.%d", l.id, life, n, caller)
				d, err := p.ask(governance.Request, x)
				if l.note(x.ID, d, err); err != nil {
					return
				}
			}
		})
	}
	// A random moment; the test does not wait for an event.
	time.Sleep(time.Duration(l.random.Int64N(int64(3 * time.Millisecond))))
	p.Kill()
	callers.Wait()
	if e := fault(l.t, p.end()); e.Kind != protocol.ChildExited {
		l.t.Errorf("Serve: %v", e)
	}
}

func (l *victim) note(id string, d governance.Decision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch kind := protocol.KindOf(err); {
	case err == nil && d.Action == governance.Allow:
		l.allowed = append(l.allowed, id)
	case err == nil && d.Code == "odd":
		l.denied++
	case kind == protocol.ChildExited || kind == protocol.NotReady,
		kind == protocol.ExtensionError: // it died between the headers of its answer and the rest
		l.failed++
	default:
		l.t.Errorf("%s: %+v, %v", id, d, err)
	}
}

// check compares the allowed calls with the journal.
func (l *victim) check(journal string) {
	data, err := os.ReadFile(journal)
	if err != nil {
		l.t.Error(err)
	}
	approved := make(map[string]bool)
	for _, id := range stormtest.WholeEntries(string(data)) {
		approved[id] = true
	}
	for _, id := range l.allowed {
		if !approved[id] || strings.HasSuffix(id, "1") {
			l.t.Errorf("%s was allowed, and not by the policy", id)
		}
	}
	if len(l.allowed) == 0 || l.denied == 0 || l.failed == 0 {
		l.t.Errorf("nothing was put to the test: %d allowed, %d denied, %d failed", len(l.allowed), l.denied, l.failed)
	}
}
