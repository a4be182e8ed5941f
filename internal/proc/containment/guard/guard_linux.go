// Package guard is the guardian: a process that outlives a host and kills what its children leave. It is
// this program again, before the packages of a host are initialised.
package guard

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/resident"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// Name is the argv[0] of a guardian, which ps shows. The number is the version of the protocol
// on the lifeline.
const Name = "exthost-guardian-1"

// Environ is the environment of a guardian.
func Environ() []string { return []string{"GOMAXPROCS=1", "GOTRACEBACK=none"} }

// The descriptors of a guardian, besides the standard ones.
const (
	// Lifeline is the reading end of a pipe that ends with the host. Its lines are: marks FIRST LAST, those
	// of the children; host MARK START, their mark in the environment and the start time of the host;
	// + PID START for a new child; - PID START for one that has ended.
	Lifeline = 3
	// Ready takes a byte when the guardian is ready.
	Ready = 4
)

// sweepLimit bounds the sweep after the end of the host: a process in uninterruptible sleep
// cannot be killed.
const sweepLimit = time.Minute

// patience is how long the guardian looks again at processes in an exec: a child that the host was starting when it
// was killed stops there for good, because nobody else traces it on.
const patience = time.Second

// A process with that name is a guardian, and nothing else. It runs here, because the packages of a
// host would leave it five times the memory that it needs; see package nsinit.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		run(Lifeline, Ready)
		unix.Exit(0)
	}
}

// run is the guardian. It records the children until the lifeline ends, and then kills their
// descendants. It ignores the signals that are sent to whole groups of processes, because the
// guardian must outlive the host.
func run(lifeline pipe, readyPipe int) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // see process.Conceal
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP)
	q := sweep.Sweeper{Known: make(map[int]uint64), Patience: patience}
	_ = unix.SetNonblock(int(lifeline), false)
	ready := false
	for lines := bufio.NewScanner(lifeline); lines.Scan(); {
		record(&q, lines.Bytes())
		if len(q.Mark) > 0 && !ready {
			ready = true
			_, _ = unix.Write(readyPipe, []byte{1})
			unix.Close(readyPipe)
			resident.Unmap()
		}
	}
	if len(q.Mark) > 0 {
		q.Sweep(sweepLimit)
	}
}

// pipe is a descriptor that is read without package os, for which the kernel would map some hundred KiB
// of the program again.
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

// record has q know what a line of the lifeline says. It allocates next to nothing, so that a guardian
// whose host starts thousands of children stays as small as it is.
func record(q *sweep.Sweeper, line []byte) {
	what, rest, _ := bytes.Cut(line, []byte{' '})
	whose, since, found := bytes.Cut(rest, []byte{' '})
	if !found {
		return
	}
	pid, _ := strconv.Atoi(string(whose))
	start, _ := strconv.ParseUint(string(since), 10, 64)
	switch string(what) {
	case "marks":
		q.Marks.First, _ = strconv.ParseUint(string(whose), 10, 64)
		q.Marks.Last = start
	case "host":
		q.Mark, q.Since = bytes.Clone(whose), start
	case "+":
		q.Known[pid] = start
	case "-":
		delete(q.Known, pid)
	}
}
