package process

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/lineage"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// containments counts the containments of this process; the count is part of their marks in the
// environment. numbered numbers the open ones; these numbers are part of their marks as limits.
var (
	containments atomic.Uint64
	numbered     = numbers{most: sweep.MaxContainment}
)

// Containment contains the children of one host: it marks their environment, kills the descendants of dead children,
// and runs a guardian process that kills all descendants when the host ends. A nil Containment only kills process
// groups. The package comment lists the processes that escape.
type Containment struct {
	Log *slog.Logger // receives a warning when a guardian ended; set before the first child; nil: no log

	program    string // executable of the guardian; "" for no guardian
	outerMarks string // marks of this process itself, each followed by a blank
	hostMark   string // prefix of each child's mark
	lastChild  atomic.Uint64
	marks      sweep.Marks  // of the children; empty if the system has none
	number     int          // of this containment in its marks; 0 if no number was free
	live       numbers      // numbers of the children in their marks
	looks      *sweep.Looks // shared by the sweeps of all children

	noProc atomic.Bool // a child's pid namespace could not get a /proc of its own

	closing  chan struct{}  // closed with closed
	watchers sync.WaitGroup // of guardians; none starts after closed

	mu          sync.Mutex
	closed      bool
	guardian    *guardian // nil before the first child, and after a failed start
	guardianErr error     // of the latest start of a guardian
	children    map[int]uint64
}

// Contain returns a containment. program is the exthost executable, which runs as the guardian once
// the first child is started, see package helper; "" means no guardian. The caller must call Close
// after all children have ended.
func Contain(program string) *Containment {
	c := &Containment{
		program:  program,
		hostMark: fmt.Sprintf("%s-%d.", lineage.ID, containments.Add(1)),
		looks:    sweep.NewLooks(),
		closing:  make(chan struct{}),
		children: make(map[int]uint64),
		number:   numbered.take(),
		live:     numbers{most: sweep.MaxChild},
	}
	if c.number > 0 {
		c.marks = sweep.OwnMarks().Containment(c.number)
	}
	if around := os.Getenv(sweep.CookieVar); around != "" {
		c.outerMarks = around + " "
	}
	return c
}

// Contained reports whether this process descends from a child of some host, and so ends with that host.
func Contained() bool { return os.Getenv(sweep.CookieVar) != "" }

// initProgram returns the executable for the init of a pid namespace; "" for none.
func (c *Containment) initProgram() string {
	if c == nil {
		return ""
	}
	return c.program
}

// The mechanisms that contain a child's descendants.
const (
	HoldsGroup    = "process group"
	HoldsSweep    = "cookie sweep"
	HoldsGuardian = "guardian"
	// HoldsNamespace applies to isolated children only. [Containment.Report] does not mention it.
	HoldsNamespace = "pid namespace"
)

// Report returns the mechanisms that work at the moment, and those that do not, each with the reason after a colon. It
// waits up to half a second for a guardian that was just started.
func (c *Containment) Report() (holds, lacks []string) {
	holds, lacks = support()
	if !slices.Contains(holds, HoldsSweep) {
		return holds, append(lacks, HoldsGuardian+": only on Linux")
	}
	c.mu.Lock()
	g, fault, closed := c.guardian, c.guardianErr, c.closed
	c.mu.Unlock()
	switch {
	case c.program == "":
		lacks = append(lacks, HoldsGuardian+": this program is not exthost and was not told where that is")
	case fault != nil:
		lacks = append(lacks, fmt.Sprintf("%s: %v", HoldsGuardian, fault))
	case g == nil || closed:
		lacks = append(lacks, HoldsGuardian+": starts with the first child")
	case !g.isUp():
		lacks = append(lacks, HoldsGuardian+": not ready; the program started as guardian may not be exthost")
	case g.ended():
		lacks = append(lacks, HoldsGuardian+": it ended; another is about to be started")
	default:
		holds = append(holds, HoldsGuardian)
	}
	return holds, lacks
}

// Close ends the guardian, which kills the remaining descendants of all children. Without a guardian, Close kills them
// itself. It takes at most a few seconds.
func (c *Containment) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	g, started := c.guardian, c.lastChild.Load() > 0
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
	if !already {
		numbered.free(c.number)
	}
}

// ensureGuardian starts a guardian unless one runs. It tries again after a failure, which may be temporary, such as a
// lack of descriptors. mu must be held.
func (c *Containment) ensureGuardian() {
	if c.closed || c.program == "" || c.guardian != nil && !c.guardian.ended() {
		return
	}
	if c.guardian, c.guardianErr = startGuardian(c.program, c.hostMark, c.marks, c.children); c.guardianErr == nil {
		g := c.guardian
		c.watchers.Go(func() { c.watchGuardian(g) })
	}
}

// guarded reports whether a guardian kills the children and their descendants when this process ends. One that has just
// been started counts until it is known not to be a guardian.
func (c *Containment) guarded() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guardian != nil && c.guardian.mayGuard()
}

// guardianPause is the shortest time between two starts of a guardian.
var guardianPause = time.Second

// watchGuardian waits until a guardian ends, for example killed by the OOM killer or an extension,
// and starts the next one, so that the running children stay contained.
func (c *Containment) watchGuardian(g *guardian) {
	g.watch()
	if !g.ready {
		return // another one would fail as well; the start of the next child tries again
	}
	select {
	case <-c.closing:
	case <-time.After(time.Until(g.began.Add(guardianPause))):
	}
	select {
	case <-c.closing:
		return // Close has ended the guardian
	default:
	}
	if c.Log != nil {
		c.Log.Warn("the guardian ended, and another takes its place; without one, processes outlive a host that is "+
			"killed", "pid", g.proc.Pid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ensureGuardian()
}

// containedChild is the containment of one child. Nil contains nothing.
type containedChild struct {
	c      *Containment
	mark   string
	number int // in its mark as a limit; 0 if no number was free
	pid    int
	start  uint64 // of the child; 0 if unknown
}

// prepare returns the containment for a child that is about to start, and makes sure that the guardian runs.
func (c *Containment) prepare() *containedChild {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ensureGuardian()
	return &containedChild{c: c, mark: fmt.Sprint(c.hostMark, c.lastChild.Add(1)), number: c.live.take()}
}

// marks returns the marks by which a sweep finds the processes of this child. If no number was free for the child, they
// match the processes of all such children of this host.
func (h *containedChild) marks() sweep.Marks {
	if h == nil || h.number == 0 || h.c.number == 0 {
		return sweep.OwnMarks().Containment(0).Child(0)
	}
	return h.c.marks.Child(h.number)
}

// sweepable returns the marks that only the descendants of this child have; empty if the child
// shares its mark with others.
func (h *containedChild) sweepable() sweep.Marks {
	if h.number == 0 || h.c.number == 0 {
		return sweep.Marks{}
	}
	return h.marks()
}

// abandon releases a child that was not started.
func (h *containedChild) abandon() {
	if h != nil {
		h.c.live.free(h.number)
	}
}

// environ returns env with the child's mark.
func (h *containedChild) environ(env []string) []string {
	if h == nil {
		return env
	}
	out := make([]string, 0, len(env)+1)
	out = append(out, sweep.CookieVar+"="+h.c.outerMarks+h.mark)
	for _, kv := range env {
		if !strings.HasPrefix(kv, sweep.CookieVar+"=") {
			out = append(out, kv)
		}
	}
	return out
}

// attach records the started child, which must not have been reaped yet.
func (h *containedChild) attach(pid int) {
	if h == nil {
		return
	}
	h.pid, h.start = pid, sweep.StartTime(pid)
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.children[pid] = h.start
	h.c.guardian.notify("+", pid, h.start)
}

// release kills the descendants of the child, which must be dead and not reaped, and forgets the child.
func (h *containedChild) release() {
	if h == nil {
		return
	}
	h.sweep()
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	delete(h.c.children, h.pid)
	h.c.guardian.notify("-", h.pid, h.start)
	h.c.live.free(h.number)
}

// numbers hands out numbers from 1 to most, each to one user at a time.
type numbers struct {
	most int

	mu   sync.Mutex
	last int
	used map[int]bool
}

// take returns the number that has been free for longest; 0 if all are taken.
func (n *numbers) take() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.used) == n.most {
		return 0
	}
	if n.used == nil {
		n.used = make(map[int]bool)
	}
	for {
		if n.last = n.last%n.most + 1; !n.used[n.last] {
			n.used[n.last] = true
			return n.last
		}
	}
}

// free returns a number.
func (n *numbers) free(number int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, number)
}
