package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/helper"
	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

const (
	// sendTimeout bounds a write to the guardian, which reads continuously.
	sendTimeout = 100 * time.Millisecond
	// readyTimeout bounds the start of a guardian.
	readyTimeout = 500 * time.Millisecond
	// closeTimeout bounds how long Close waits for the guardian's sweep.
	closeTimeout = 2 * time.Second
)

// lockFile is the path set by NoteEnd.
var lockFile atomic.Value

// NoteEnd has the guardians that are started from now on append the time at which this process has ended to its lock
// file, given by its absolute path: {"ended":PID,"unix":SECONDS}.
func NoteEnd(lock string) { lockFile.Store(lock) }

// guardian is the host's side of the guardian process. Containment.mu must be held for notify.
type guardian struct {
	proc       *os.Process
	lifeline   *os.File // write end of the pipe that closes with this process
	readyPipe  *os.File // one byte arrives when the guardian is ready
	began      time.Time
	readyKnown chan struct{} // closed once ready is known
	ready      bool          // set before readyKnown is closed
	done       chan struct{} // closed once the guardian has been reaped
}

// startGuardian starts program as the guardian of a host. leaders are the host's running children,
// pid to start time. It does not wait until the guardian runs, which reads the lifeline from then
// on. The caller must call watch.
func startGuardian(program, host string, marks sweep.Marks, leaders map[int]uint64) (*guardian, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	life, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	isReady, ready, err := os.Pipe()
	if err != nil {
		life.Close()
		lifeline.Close()
		return nil, err
	}
	defer ready.Close()
	proc, err := os.StartProcess(program, []string{helper.GuardianName, "of", strconv.Itoa(os.Getpid())}, &os.ProcAttr{
		Dir:   "/",
		Env:   helper.GuardianEnviron(),
		Files: []*os.File{null, null, null, helper.Lifeline: life, helper.Ready: ready},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	life.Close() // otherwise, writes to a dead guardian would block instead of failing
	if err != nil {
		lifeline.Close()
		isReady.Close()
		return nil, err
	}
	g := &guardian{
		proc:       proc,
		lifeline:   lifeline,
		readyPipe:  isReady,
		began:      time.Now(),
		readyKnown: make(chan struct{}),
		done:       make(chan struct{}),
	}
	g.send("marks %d %d\n", marks.First, marks.Last)
	if lock, _ := lockFile.Load().(string); lock != "" {
		g.send("lock %s\n", lock)
	}
	g.send("host %s %d\n", host, sweep.StartTime(os.Getpid()))
	for pid, start := range leaders {
		g.notify("+", pid, start)
	}
	return g, nil
}

// watch waits until the guardian is ready, and then for its end.
func (g *guardian) watch() {
	n, _ := g.readyPipe.Read(make([]byte, 1))
	g.ready = n == 1
	close(g.readyKnown)
	g.readyPipe.Close()
	awaitExit(g.proc.Pid)
	_, _ = g.proc.Wait()
	g.lifeline.Close()
	close(g.done)
}

// isUp reports whether the guardian is ready. It gives a new guardian time to start.
func (g *guardian) isUp() bool {
	select {
	case <-g.readyKnown:
	case <-time.After(time.Until(g.began.Add(readyTimeout))):
	}
	select { // after the timeout readyKnown may be closed as well
	case <-g.readyKnown:
		return g.ready
	default:
		return false
	}
}

// mayGuard reports whether the process runs and is ready, or may still get ready.
func (g *guardian) mayGuard() bool {
	select {
	case <-g.readyKnown:
		return g.ready && !g.ended()
	default:
		return true
	}
}

func (g *guardian) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// notify tells the guardian that a child was started ("+") or has ended ("-").
func (g *guardian) notify(what string, pid int, start uint64) {
	if g != nil {
		g.send("%s %d %d\n", what, pid, start)
	}
}

// send writes a line, short enough for an atomic write to a pipe. It resumes a stopped guardian first. A guardian that
// does not read is killed, to be replaced, and gets no further lines. After close, send does nothing.
func (g *guardian) send(format string, args ...any) {
	g.resume()
	_ = g.lifeline.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := fmt.Fprintf(g.lifeline, format, args...); err != nil && !errors.Is(err, os.ErrClosed) {
		_ = g.proc.Kill()
		g.lifeline.Close() // only after the kill: the guardian would sweep otherwise
	}
}

// close makes the guardian sweep and waits for its end.
func (g *guardian) close() {
	g.lifeline.Close()
	g.resume()
	select {
	case <-g.done:
	case <-time.After(closeTimeout):
		_ = g.proc.Kill()
		<-g.done
	}
}

// resume continues a guardian that was stopped by a signal, because a stopped one could not sweep
// at the end of the host.
func (g *guardian) resume() { _ = g.proc.Signal(unix.SIGCONT) }

// sweepWait bounds how long the reaping of a child waits for its descendants to end.
const sweepWait = time.Second

// sweep kills the descendants of the child, which must be dead and not reaped.
func (h *containedChild) sweep() {
	q := sweep.Sweeper{
		Marks: h.sweepable(),
		Mark:  []byte(h.mark),
		Known: map[int]uint64{h.pid: h.start},
		Since: h.start,
		Looks: h.c.looks,
	}
	q.Sweep(sweepWait)
}

func (c *Containment) sweepAll() {
	q := sweep.Sweeper{
		Marks: c.marks,
		Mark:  []byte(c.hostMark),
		Since: sweep.StartTime(os.Getpid()),
		Known: make(map[int]uint64),
	}
	q.Sweep(sweepWait)
}

// support returns the mechanisms that work without a guardian, and those that do not, with reasons.
func support() (holds, lacks []string) {
	holds = append(holds, HoldsGroup)
	if sweep.StartTime(os.Getpid()) == 0 {
		return holds, append(lacks, HoldsSweep+": /proc cannot be read")
	}
	if limited.Late() {
		lacks = append(lacks, "limits from the first instruction on: tracing is forbidden, so they are set right "+
			"after it")
	}
	return append(holds, HoldsSweep), lacks
}
