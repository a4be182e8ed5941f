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
)

// guardianName is the guardian's argv[0], by which [Reenter] knows that it is
// one and ps shows it. The number is that of what is said on the lifeline.
const guardianName = "exthost-guardian-1"

const (
	// tellWait is how long the guardian, which does nothing but read, may take to.
	tellWait = 100 * time.Millisecond
	// bootWait is how long a guardian may take to be ready before it is doubted.
	bootWait = 500 * time.Millisecond
	// guardianWait is how long Close waits for the guardian, which sweeps first.
	guardianWait = 2 * time.Second
	// lastSweep bounds the guardian's own life after the host's: what is in
	// uninterruptible sleep cannot be killed.
	lastSweep = time.Minute
)

// guardian is the host's side of the guardian process. Tell needs Containment.mu.
type guardian struct {
	proc     *os.Process
	lifeline *os.File // ends when this process does, however that happens
	isReady  *os.File // says when it is ready
	began    time.Time
	settled  chan struct{} // closed when it is ready, or will never be
	ready    bool          // written before settled is closed
	done     chan struct{} // closed when it has been reaped
}

// startGuardian starts program as the guardian of the children of host, those of
// leaders among them. It does not wait: what is written to the lifeline is read
// when the guardian is up, and only then the lifeline's end seen. Somebody must
// watch it.
func startGuardian(program, host string, leaders map[int]uint64) (*guardian, error) {
	if os.Args[0] == guardianName || os.Args[0] == initName {
		return nil, errNotGuardian // we are such a program ourselves: no chain of them
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
	g := &guardian{proc: proc, lifeline: lifeline, isReady: isReady, began: time.Now(), settled: make(chan struct{}), done: make(chan struct{})}
	g.say("host %s %d\n", host, startTime(os.Getpid()))
	for pid, start := range leaders {
		g.tell("+", pid, start)
	}
	return g, nil
}

// watch sees the guardian become ready, and end.
func (g *guardian) watch() {
	n, _ := g.isReady.Read(make([]byte, 1))
	g.ready = n == 1
	close(g.settled)
	g.isReady.Close()
	awaitExit(g.proc.Pid)
	_, _ = g.proc.Wait()
	g.lifeline.Close()
	close(g.done)
}

// booted reports whether the guardian has become ready, and gives a new one time to.
func (g *guardian) booted() bool {
	select {
	case <-g.settled:
	case <-time.After(time.Until(g.began.Add(bootWait))):
	}
	select { // whose time is up may have been ready all along
	case <-g.settled:
		return g.ready
	default:
		return false
	}
}

// ended reports whether the guardian is gone.
func (g *guardian) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// tell says that the leader of a group came (+) or went (-).
func (g *guardian) tell(what string, pid int, start uint64) {
	if g != nil {
		g.say("%s %d %d\n", what, pid, start)
	}
}

// say writes a line, shorter than what a pipe takes in one piece. A guardian that
// does not read is of no use; killed, it is replaced. One that was stopped goes on.
// One whose lifeline we have closed is at its last work.
func (g *guardian) say(format string, args ...any) {
	g.resume()
	_ = g.lifeline.SetWriteDeadline(time.Now().Add(tellWait))
	if _, err := fmt.Fprintf(g.lifeline, format, args...); err != nil && !errors.Is(err, os.ErrClosed) {
		_ = g.proc.Kill()
	}
}

// close lets the guardian do its last work and waits for its end.
func (g *guardian) close() {
	g.lifeline.Close()
	g.resume()
	select {
	case <-g.done:
	case <-time.After(guardianWait):
		_ = g.proc.Kill()
		<-g.done
	}
}

// resume lets a guardian go on that somebody has stopped: stopped, it would do
// nothing when we die.
func (g *guardian) resume() { _ = g.proc.Signal(unix.SIGCONT) }

// Reenter is to be called first thing by main of the exthost program. In a
// process that was started to be a guardian, or the init of a pid namespace, it
// does that and does not return.
func Reenter() {
	switch os.Args[0] {
	case guardianName:
		guard(os.NewFile(3, "lifeline"), os.NewFile(4, "ready"))
	case initName:
		initMain(os.NewFile(3, "host"), os.Args[1:])
	default:
		return
	}
	unix.Exit(0)
}

// guard is the guardian: it does nothing until the lifeline ends, and then kills
// what there still is of the host's children. Signals that end groups of
// processes, and the host among them, must not end it before.
func guard(lifeline, ready *os.File) {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP)
	debug.SetGCPercent(10)
	debug.FreeOSMemory()
	q := quarry{ours: make(map[int]uint64)}
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
			q.ours[pid] = start
		case "-":
			delete(q.ours, pid)
		}
	}
	if len(q.mark) > 0 {
		q.sweep(lastSweep)
	}
}
