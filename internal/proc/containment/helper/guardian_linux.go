package helper

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// GuardianName is the guardian's argv[0], which ps shows. The number is the version of the protocol on the lifeline.
const GuardianName = "exthost-guardian-1"

// GuardianEnviron is the guardian's whole environment.
func GuardianEnviron() []string { return []string{"GOMAXPROCS=1", "GOTRACEBACK=none"} }

// The descriptors of a guardian, besides the standard ones.
const (
	// Lifeline is the read end of a pipe that closes when the host ends. Its lines are:
	//
	//	marks FIRST LAST   range of marks of the host's children
	//	host MARK START    mark in the children's environment, start time of the host
	//	+ PID START        a child has started
	//	- PID START        a child has ended
	//	lock PATH          lock file of the host, to which the guardian appends when the host has ended
	Lifeline = 3
	// Ready is written one byte when the guardian is ready.
	Ready = 4
)

// sweepLimit bounds the sweep after the host has ended. A process in uninterruptible sleep cannot be killed, and an
// exec takes seconds on a machine that is short of processor time: when the host is killed while it starts a child,
// the child remains stopped in its exec, because its tracer is gone.
const sweepLimit = time.Minute

func init() {
	if len(os.Args) > 0 && os.Args[0] == GuardianName {
		runGuardian(Lifeline, Ready)
		unix.Exit(0)
	}
}

// runGuardian records the children until the lifeline ends, then kills their descendants. It ignores the signals that
// are sent to whole process groups, because the guardian must outlive the host.
func runGuardian(lifeline pipe, readyPipe int) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // see process.Conceal
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP)
	q := sweep.Sweeper{Known: make(map[int]uint64)}
	_ = unix.SetNonblock(int(lifeline), false)
	ready, lock := false, ""
	for lines := bufio.NewScanner(lifeline); lines.Scan(); {
		if path, ok := bytes.CutPrefix(lines.Bytes(), []byte("lock ")); ok {
			lock = string(path)
		}
		record(&q, lines.Bytes())
		if len(q.Mark) > 0 && !ready {
			ready = true
			_, _ = unix.Write(readyPipe, []byte{1})
			unix.Close(readyPipe)
			unmap("")
		}
	}
	noteEnd(lock)
	if len(q.Mark) > 0 {
		q.Sweep(sweepLimit)
	}
}

// noteEnd appends the pid of the host and the time to its lock file, if it has one: {"ended":PID,"unix":SECONDS}. A
// host that ends by itself empties the file afterwards.
func noteEnd(lock string) {
	if lock == "" || len(os.Args) < 3 {
		return
	}
	fd, err := unix.Open(lock, unix.O_WRONLY|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	note := append([]byte(`{"ended":`), os.Args[2]...)
	note = strconv.AppendInt(append(note, `,"unix":`...), time.Now().Unix(), 10)
	_, _ = unix.Write(fd, append(note, "}\n"...))
	_ = unix.Close(fd)
}

// pipe is a descriptor that is read without package os, which would cost some hundred KiB of
// resident program pages.
type pipe int

func (p pipe) Read(b []byte) (int, error) {
	for {
		switch n, err := unix.Read(int(p), b); {
		case err == unix.EINTR:
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		default:
			return 0, io.EOF
		}
	}
}

// record applies one line of the lifeline to q. It allocates next to nothing, so that a guardian does not grow with the
// number of children that its host starts.
func record(q *sweep.Sweeper, line []byte) {
	verb, rest, _ := bytes.Cut(line, []byte{' '})
	first, second, found := bytes.Cut(rest, []byte{' '})
	if !found {
		return
	}
	pid, _ := strconv.Atoi(string(first))
	start, _ := strconv.ParseUint(string(second), 10, 64)
	switch string(verb) {
	case "marks":
		q.Marks.First, _ = strconv.ParseUint(string(first), 10, 64)
		q.Marks.Last = start
	case "host":
		q.Mark, q.Since = bytes.Clone(first), start
	case "+":
		q.Known[pid] = start
	case "-":
		delete(q.Known, pid)
	}
}
