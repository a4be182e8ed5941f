package process

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// cookieVar is the variable by which the processes that a child leaves behind
// are known to be its own. Its value is one mark, or where hosts run inside the
// extensions of other hosts, one of each, outermost first and parted by blanks.
const cookieVar = "EXTHOST_COOKIE"

// Containment is what the children of one host are held by: it marks their
// environment, kills what a dead child leaves behind, and keeps a guardian
// process that does the same for all of them when this process dies. A nil one
// holds nothing beyond the process group. See the package comment for what
// escapes it.
type Containment struct {
	program string // that can be the guardian; "" when none can
	around  string // the marks that we carry ourselves, each followed by a blank
	host    string // begins the mark of each child
	last    atomic.Uint64

	closing  chan struct{}  // closed with closed
	watchers sync.WaitGroup // of guardians, begun before closed

	mu       sync.Mutex
	closed   bool
	guardian *guardian // nil before the first child, and when the latest could not be started
	fault    error     // why it could not
	leaders  map[int]uint64
}

// Contain returns a containment. Program is the exthost executable (one that
// calls [Reenter]) that becomes the guardian when the first child is started; ""
// does without one. Close must be called when all children are dead.
func Contain(program string) *Containment {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	c := &Containment{program: program, host: hex.EncodeToString(id[:]) + ".",
		closing: make(chan struct{}), leaders: make(map[int]uint64)}
	if around := os.Getenv(cookieVar); around != "" {
		c.around = around + " "
	}
	return c
}

// initProgram is the program that can be the init of a pid namespace; "" for none.
func (c *Containment) initProgram() string {
	if c == nil {
		return ""
	}
	return c.program
}

// What can hold the processes of a child.
const (
	HoldsGroup    = "process group"
	HoldsSweep    = "cookie sweep"
	HoldsGuardian = "guardian"
	// HoldsNamespace holds an isolated child, and is no matter of [Containment.Report].
	HoldsNamespace = "pid namespace"
)

// Report returns what holds at this moment, and what does not, each with the
// reason after a colon. It waits for a guardian that has just been started, until
// half a second after that.
func (c *Containment) Report() (holds, lacks []string) {
	holds, lacks = held()
	if !slices.Contains(holds, HoldsSweep) {
		return holds, append(lacks, HoldsGuardian+": only on Linux")
	}
	c.mu.Lock()
	g, fault, closed := c.guardian, c.fault, c.closed
	c.mu.Unlock()
	switch {
	case c.program == "":
		lacks = append(lacks, HoldsGuardian+": this program is not exthost and was not told where that is")
	case fault != nil:
		lacks = append(lacks, fmt.Sprintf("%s: %v", HoldsGuardian, fault))
	case g == nil || closed:
		lacks = append(lacks, HoldsGuardian+": starts with the first child")
	case !g.booted():
		lacks = append(lacks, HoldsGuardian+": not ready; the program that was to be it may not be exthost")
	case g.ended():
		lacks = append(lacks, HoldsGuardian+": it ended; another is about to be started")
	default:
		holds = append(holds, HoldsGuardian)
	}
	return holds, lacks
}

// Close ends the guardian, which kills what is left of any child; without one
// Close does that itself. It takes at most a few seconds.
func (c *Containment) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	g, started := c.guardian, c.last.Load() > 0
	already := c.closed
	if c.closed = true; !already {
		close(c.closing)
	}
	c.mu.Unlock()
	switch {
	case already:
	case g != nil && !g.ended():
		g.close()
	case started:
		c.sweepAll()
	}
	c.watchers.Wait()
}

// hire starts a guardian unless one runs. What kept an earlier one from being
// started, such as a shortage of descriptors, may be over. It needs mu.
func (c *Containment) hire() {
	if c.closed || c.program == "" || c.guardian != nil && !c.guardian.ended() {
		return
	}
	if c.guardian, c.fault = startGuardian(c.program, c.host, c.leaders); c.fault == nil {
		g := c.guardian
		c.watchers.Go(func() { c.keep(g) })
	}
}

// guardianPause is the least time between the starts of two guardians.
const guardianPause = time.Second

// keep sees a guardian to its end, and replaces one that knew its work: what ended
// it, the kernel out of memory or an extension, leaves the children that run
// without one until then.
func (c *Containment) keep(g *guardian) {
	g.watch()
	if !g.ready {
		return // the next would be none either; the next start of a child tries
	}
	select {
	case <-c.closing:
	case <-time.After(time.Until(g.began.Add(guardianPause))):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hire()
}

// hold is the grip on one child. A nil one has none.
type hold struct {
	c     *Containment
	mark  string
	pid   int
	start uint64 // of the child; 0 when unknown
}

// prepare returns the grip on a child about to be started, by when the guardian
// runs if it can.
func (c *Containment) prepare() *hold {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hire()
	return &hold{c: c, mark: fmt.Sprint(c.host, c.last.Add(1))}
}

// environ returns env with the mark.
func (h *hold) environ(env []string) []string {
	if h == nil {
		return env
	}
	out := make([]string, 0, len(env)+1)
	out = append(out, cookieVar+"="+h.c.around+h.mark)
	for _, kv := range env {
		if !strings.HasPrefix(kv, cookieVar+"=") {
			out = append(out, kv)
		}
	}
	return out
}

// take makes pid, a child that is not reaped, the one that is held.
func (h *hold) take(pid int) {
	if h == nil {
		return
	}
	h.pid, h.start = pid, startTime(pid)
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.leaders[pid] = h.start
	h.c.guardian.tell("+", pid, h.start)
}

// release kills what the child, dead and not reaped, has left behind, and lets go.
func (h *hold) release() {
	if h == nil {
		return
	}
	h.sweep()
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	delete(h.c.leaders, h.pid)
	h.c.guardian.tell("-", h.pid, h.start)
}

// errNotGuardian is why a process that was itself started to be a guardian, and
// is none, starts no other.
var errNotGuardian = errors.New("this program was started as one and does not know how")
