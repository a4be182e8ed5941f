package sweep

import (
	"cmp"
	"errors"
	"os"
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
	// Patience is how long processes with an empty environment are looked at again: they may be in an exec, which can
	// take long on a busy system. Default: 6 ms.
	Patience time.Duration

	// Known are the processes to kill, dead or alive, pid to start time: at first the children.
	// Sweep adds the descendants that it finds and the leaders of their sessions.
	Known      map[int]uint64
	cleared    map[int]bool // not descendants, as of the last full scan
	unreadable int          // cleared processes with an empty environment
	proc       reader
}

// emptyScans is how many scans for new processes must find no descendant before the next full scan:
// a process that keeps forking can escape a single scan.
const emptyScans = 3

// unreadablePause is the first pause before looking again at processes with an empty environment.
// The environment of some processes is always empty.
const unreadablePause = 2 * time.Millisecond

// Sweep kills all descendants, including new ones, until none is left or limit has passed.
func (q *Sweeper) Sweep(limit time.Duration) {
	deadline := time.Now().Add(limit)
	patience := cmp.Or(q.Patience, 3*unreadablePause)
	patient := time.Now().Add(patience)
	for pause := unreadablePause; ; pause = min(2*pause, max(patience/30, unreadablePause)) {
		switch killed := q.scan(true); {
		case killed > 0:
			if !q.sweepNew(deadline) {
				return
			}
		case q.unreadable > 0 && time.Now().Before(patient):
			time.Sleep(pause)
		default:
			return
		}
	}
}

// sweepNew scans for new processes until there are none; false after the deadline.
func (q *Sweeper) sweepNew(deadline time.Time) bool {
	pause := 100 * time.Microsecond
	for empty := 0; empty < emptyScans; {
		if time.Now().After(deadline) {
			return false
		}
		known := len(q.Known)
		if q.scan(false) == 0 {
			empty++
		}
		if len(q.Known) > known {
			continue // scan again at once
		}
		time.Sleep(pause) // processes that are not children cannot be waited for
		pause = min(2*pause, 10*time.Millisecond)
	}
	return true
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
				if first && s.blank {
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
	var seen []stat
	if full {
		q.cleared, q.unreadable = make(map[int]bool), 0
		q.Looks = cmp.Or(q.Looks, &Looks{since: q.Since})
		seen = q.Looks.processes()
	} else {
		seen = q.proc.processes(q.cleared, q.Since)
	}
	self := os.Getpid()
	for _, s := range seen {
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
	since  uint64 // marks of older processes are not read
	shared concurrent.SharedRun[[]stat]
}

// NewLooks returns the scans for children of this process.
func NewLooks() *Looks { return &Looks{since: StartTime(os.Getpid())} }

// processes returns all processes, read after the call began. The result is shared: do not change it.
func (l *Looks) processes() []stat {
	return l.shared.Do(func() []stat {
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
