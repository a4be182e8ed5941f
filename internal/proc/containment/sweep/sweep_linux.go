package sweep

import (
	"cmp"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/concurrent"
)

// Sweeper finds and kills descendants of dead children.
type Sweeper struct {
	Marks Marks  // of the children
	Mark  []byte // in the children's environment; ending in ".", it stands for every mark that begins so; nil: none
	Since uint64 // earliest start time of the children
	Looks *Looks // shared full scans; nil: not shared

	// Known are the processes to kill, dead or alive, pid to start time: at first the children.
	// Sweep adds the descendants that it finds and the leaders of their sessions.
	Known      map[int]uint64
	cleared    map[int]bool // not descendants, as of the last full scan
	unreadable int          // cleared processes in the middle of an exec
	forks      bool         // the last scan may have missed processes
	proc       reader
}

// emptyScans is how many scans for new processes must find no descendant while some process keeps forking, which can
// escape a single scan.
const emptyScans = 5

// unreadablePause is the first pause before looking again at processes in the middle of an exec.
const unreadablePause = 2 * time.Millisecond

// Sweep kills all descendants, including new ones, until none is left or limit has passed. Meanwhile it looks again at
// processes in the middle of an exec, which takes long on a busy system.
func (q *Sweeper) Sweep(limit time.Duration) {
	deadline := time.Now().Add(limit)
	q.Looks = cmp.Or(q.Looks, &Looks{since: q.Since})
	alone := q.Looks.sweeps.Add(1) == 1
	defer q.Looks.sweeps.Add(-1)
	for pause := unreadablePause; ; pause = min(2*pause, limit/30) {
		killed := q.scan(true)
		if killed > 0 || q.forks && alone { // a thousand children that end together cannot each scan several times
			killed += q.sweepNew(deadline)
		}
		if killed == 0 && q.unreadable == 0 || time.Now().After(deadline) {
			return
		}
		if killed == 0 {
			time.Sleep(pause)
		}
	}
}

// sweepNew scans for new processes until there are none or the deadline has passed, and returns the number that it has
// killed.
func (q *Sweeper) sweepNew(deadline time.Time) (killed int) {
	pause := 100 * time.Microsecond
	for empty := 0; empty < emptyScans && time.Now().Before(deadline); {
		known, n := len(q.Known), q.scan(false)
		killed += n
		switch {
		case n > 0:
		case !q.forks:
			return killed
		default:
			empty++
		}
		if len(q.Known) > known {
			continue // scan again at once
		}
		time.Sleep(pause) // processes that are not children cannot be waited for
		pause = min(2*pause, 10*time.Millisecond)
	}
	return killed
}

// scan kills the descendants that it finds and returns their number, without those that it may not kill. Unless full is
// set, it skips the processes that the last full scan has cleared.
func (q *Sweeper) scan(full bool) (killed int) {
	suspects := q.candidates(full)
	for first, more := true, true; more; first = false {
		more = false
		unrelated := suspects[:0]
		for _, s := range suspects {
			if !q.related(s) && !(first && q.bears(s)) {
				if first && s.blank && q.mayBear(s) {
					q.unreadable++
				}
				unrelated = append(unrelated, s)
				continue
			}
			more = true
			q.addKnown(s)
			if q.kill(s) == nil {
				killed++
			}
		}
		suspects = unrelated
	}
	for _, s := range suspects {
		q.cleared[s.pid] = true
	}
	return killed
}

// bears reports whether s has the mark of a child.
func (q *Sweeper) bears(s stat) bool { return q.Marks.Has(s.limit) || hasMark(s.marks, q.Mark) }

// mayBear reports whether s, in an exec, may have a mark in its next environment: its limit is not the mark of another
// child or of a host inside one.
func (q *Sweeper) mayBear(s stat) bool {
	return q.Marks.Last == 0 || Level(s.limit) > Level(q.Marks.First)
}

// related reports whether s, its parent or its session leader is known. This also finds exiting processes, which have
// no environment any more.
func (q *Sweeper) related(s stat) bool {
	for _, pid := range []int{s.pid, s.parent, s.session} {
		if _, known := q.Known[pid]; known {
			return true
		}
	}
	return false
}

// addKnown records s and the leader of its session: no unrelated process can enter a session that a
// descendant leads. The mark may have got to an unrelated process, in a session of the user. The
// leader of such a session is older than the children, and is not recorded.
func (q *Sweeper) addKnown(s stat) {
	q.Known[s.pid] = s.start
	if s.session <= 1 || s.session == os.Getpid() || q.Since == 0 {
		return
	}
	if leader, ok := q.proc.stat(s.session); ok && leader.start >= q.Since && leader.start <= s.start {
		q.Known[s.session] = leader.start
	}
}

// candidates returns the running processes that are young enough and not cleared. It forgets known processes whose pid
// was reused.
func (q *Sweeper) candidates(full bool) (all []stat) {
	var seen look
	if full {
		q.cleared, q.unreadable = make(map[int]bool), 0
		seen = q.Looks.processes()
	} else {
		seen = q.proc.processes(q.cleared, q.Since)
	}
	q.forks = seen.forks
	self := os.Getpid()
	for _, s := range seen.processes {
		if start, known := q.Known[s.pid]; known && s.start != start {
			delete(q.Known, s.pid)
		}
		if !s.dead && s.pid != self && s.start >= q.Since {
			all = append(all, s)
		}
	}
	return all
}

// Looks shares full scans of /proc among children that end at the same time.
type Looks struct {
	since  uint64       // marks of older processes are not read
	sweeps atomic.Int32 // under way
	shared concurrent.SharedRun[look]
}

// NewLooks returns the scans for children of this process.
func NewLooks() *Looks { return &Looks{since: StartTime(os.Getpid())} }

// processes returns all processes, read after the call began. The result is shared: do not change it.
func (l *Looks) processes() look {
	return l.shared.Do(func() look {
		var r reader
		return r.processes(nil, l.since)
	})
}

// kill sends SIGKILL to s. It opens a handle before it compares start times, so that a reused pid is never killed.
func (q *Sweeper) kill(s stat) error {
	p, err := os.FindProcess(s.pid)
	if err != nil {
		return nil
	}
	defer p.Release()
	if now, ok := q.proc.stat(s.pid); !ok || now.start != s.start {
		return nil
	}
	if err := p.Signal(unix.SIGKILL); errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}
