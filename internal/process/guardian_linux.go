package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/nsinit"
)

// guardianName is the argv[0] of the guardian, which [Reenter] recognizes and ps shows. The
// number is the version of the protocol on the lifeline.
const guardianName = "exthost-guardian-1"

const (
	// sendTimeout bounds a write to the guardian, which reads all the time.
	sendTimeout = 100 * time.Millisecond
	// readyTimeout bounds the start of a guardian.
	readyTimeout = 500 * time.Millisecond
	// closeTimeout bounds the wait of Close for the guardian's sweep.
	closeTimeout = 2 * time.Second
	// finalSweepLimit bounds the guardian's sweep after the end of the host: a process
	// in uninterruptible sleep cannot be killed.
	finalSweepLimit = time.Minute
)

// guardian is the host's side of the guardian process. Containment.mu must be held for
// notify.
type guardian struct {
	proc       *os.Process
	lifeline   *os.File // writing end of the pipe that ends with this process
	readyPipe  *os.File // the guardian writes one byte when it is ready
	began      time.Time
	readyKnown chan struct{} // closed when ready is known
	ready      bool          // set before readyKnown is closed
	done       chan struct{} // closed when the guardian has been reaped
}

// startGuardian starts program as the guardian of a host, with its running children in
// leaders. It does not wait: the guardian reads the lines on the lifeline once it runs.
// The caller must call watch.
func startGuardian(program, host string, leaders map[int]uint64) (*guardian, error) {
	if os.Args[0] == guardianName || os.Args[0] == nsinit.Name {
		return nil, errNotGuardian // avoids an endless chain of guardians
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	life, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer life.Close()
	isReady, ready, err := os.Pipe()
	if err != nil {
		lifeline.Close()
		return nil, err
	}
	defer ready.Close()
	proc, err := os.StartProcess(program, []string{guardianName, "of", strconv.Itoa(os.Getpid())}, &os.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Files: []*os.File{null, null, null, life, ready},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		lifeline.Close()
		isReady.Close()
		return nil, err
	}
	g := &guardian{proc: proc, lifeline: lifeline, readyPipe: isReady, began: time.Now(), readyKnown: make(chan struct{}), done: make(chan struct{})}
	g.send("host %s %d\n", host, startTime(os.Getpid()))
	for pid, start := range leaders {
		g.notify("+", pid, start)
	}
	return g, nil
}

// watch waits until the guardian is ready, and for its end.
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

func (g *guardian) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// notify tells the guardian that a child was started (+) or has ended (-).
func (g *guardian) notify(what string, pid int, start uint64) {
	if g != nil {
		g.send("%s %d %d\n", what, pid, start)
	}
}

// send writes a line, which is short enough for an atomic write to a pipe. It kills a
// guardian that does not read, which is then replaced; a stopped guardian is resumed
// first. After close it does nothing.
func (g *guardian) send(format string, args ...any) {
	g.resume()
	_ = g.lifeline.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := fmt.Fprintf(g.lifeline, format, args...); err != nil && !errors.Is(err, os.ErrClosed) {
		_ = g.proc.Kill()
	}
}

// close makes the guardian sweep, and waits for its end.
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

// resume continues a guardian that was stopped by a signal. A stopped guardian could not
// sweep at the end of the host.
func (g *guardian) resume() { _ = g.proc.Signal(unix.SIGCONT) }

// Reenter must be the first call in main of the exthost program. In a process that was
// started as a guardian, it runs that and does not return.
func Reenter() {
	switch os.Args[0] {
	case guardianName:
		Conceal()
		runGuardian(os.NewFile(3, "lifeline"), os.NewFile(4, "ready"))
	default:
		return
	}
	unix.Exit(0)
}

// runGuardian is the guardian. It records the children until the lifeline ends, and then
// kills their descendants. It ignores the signals that are sent to whole groups of
// processes, because the guardian must outlive the host.
func runGuardian(lifeline, ready *os.File) {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP)
	debug.SetGCPercent(10)
	debug.FreeOSMemory()
	q := sweeper{known: make(map[int]uint64)}
	for lines := bufio.NewScanner(lifeline); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			continue
		}
		pid, _ := strconv.Atoi(f[1])
		start, _ := strconv.ParseUint(f[2], 10, 64)
		switch f[0] {
		case "host":
			q.mark, q.since = []byte(f[1]), start
			_, _ = ready.Write([]byte{1})
			ready.Close()
		case "+":
			q.known[pid] = start
		case "-":
			delete(q.known, pid)
		}
	}
	if len(q.mark) > 0 {
		q.sweep(finalSweepLimit)
	}
}
