package process

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// quarry says which processes a sweep is after, and what it knows of those that
// there are.
type quarry struct {
	mark  []byte // in their environment, see [procReader.marked]
	since uint64 // they did not start before

	// ours are the known ones, dead or alive, by pid and start time: the leaders
	// to begin with, then all that are found, and who leads the sessions that they
	// are in.
	ours     map[int]uint64
	innocent map[int]bool // looked at by the last full pass, and none of them
	blank    int          // of these, those whose environment could not tell
	proc     procReader
}

// sweepWait bounds how long the death of a child waits for that of what it left
// behind.
const sweepWait = time.Second

// quiet is how many passes over new processes must find nothing before all are
// looked at for a last time: what forks all the time hides between two looks.
const quiet = 3

// Those whose environment could not tell are looked at so many times more, so far
// apart. Some have none at all.
const (
	blankLooks = 3
	blankPause = 2 * time.Millisecond
)

// sweep kills them, and what they start meanwhile, until there are none, or some
// are still there after limit.
func (q *quarry) sweep(limit time.Duration) {
	deadline := time.Now().Add(limit)
	for looks := 0; ; {
		switch killed := q.pass(true); {
		case killed > 0:
			if !q.chase(deadline) {
				return
			}
		case q.blank > 0 && looks < blankLooks:
			looks++
			time.Sleep(blankPause)
		default:
			return
		}
	}
}

// chase goes after what is new until nothing is, and reports whether that was
// before the deadline.
func (q *quarry) chase(deadline time.Time) bool {
	pause := 100 * time.Microsecond
	for empty := 0; empty < quiet; {
		if time.Now().After(deadline) {
			return false
		}
		known := len(q.ours)
		if q.pass(false) == 0 {
			empty++
		}
		if len(q.ours) > known {
			continue // at their heels
		}
		time.Sleep(pause) // the death of others cannot be awaited
		pause = min(2*pause, 10*time.Millisecond)
	}
	return true
}

// pass kills those that it finds, at once, and returns how many. A pass that is
// not full leaves out whom the last full one cleared. What may not be killed does
// not count.
func (q *quarry) pass(full bool) (killed int) {
	if full {
		q.innocent, q.blank = make(map[int]bool), 0
	}
	suspects := q.suspects()
	for first, more := true, true; more; first = false {
		more = false
		others := suspects[:0]
		for _, s := range suspects {
			if !q.related(s) && !(first && q.marked(s)) {
				others = append(others, s)
				continue
			}
			more = true
			q.claim(s)
			if q.kill(s) == nil {
				killed++
			}
		}
		suspects = others
	}
	for _, s := range suspects {
		q.innocent[s.pid] = true
	}
	return killed
}

// marked reports whether s has the mark, and counts those that cannot tell.
func (q *quarry) marked(s procStat) bool {
	marked, blank := q.proc.marked(s.pid, q.mark)
	if blank {
		q.blank++
	}
	return marked
}

// related reports whether s is known, descends from one that is, or shares its
// session. One that is dying has lost its environment.
func (q *quarry) related(s procStat) bool {
	for _, pid := range []int{s.pid, s.parent, s.session} {
		if _, known := q.ours[pid]; known {
			return true
		}
	}
	return false
}

// claim makes s known, and whoever leads its session: those of descendants are
// never entered from outside. But a mark may have been handed to a process that
// is no descendant, in the session of a user; that has an older leader.
func (q *quarry) claim(s procStat) {
	q.ours[s.pid] = s.start
	if s.session <= 1 || s.session == os.Getpid() || q.since == 0 {
		return
	}
	if leader, ok := q.proc.stat(s.session); ok && leader.start >= q.since && leader.start <= s.start {
		q.ours[s.session] = leader.start
	}
}

// suspects returns the living processes that are young enough and not cleared.
// Whose pid is another's by now is forgotten.
func (q *quarry) suspects() (all []procStat) {
	self := os.Getpid()
	for _, pid := range pids() {
		if q.innocent[pid] || pid == self {
			continue
		}
		s, ok := q.proc.stat(pid)
		if !ok {
			continue
		}
		if start, known := q.ours[pid]; known && s.start != start {
			delete(q.ours, pid)
		}
		if s.dead {
			continue
		}
		if s.start < q.since {
			q.innocent[pid] = true
			continue
		}
		all = append(all, s)
	}
	return all
}

// kill sends SIGKILL to s and to nobody else: once the handle is held, it stands
// for the process whose start time is read after.
func (q *quarry) kill(s procStat) error {
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

// sweep kills what the child, dead and not reaped, has left behind.
func (h *hold) sweep() {
	q := quarry{mark: []byte(h.mark), ours: map[int]uint64{h.pid: h.start}, since: h.start}
	q.sweep(sweepWait)
}

// sweepAll kills what any child has left behind.
func (c *Containment) sweepAll() {
	q := quarry{mark: []byte(c.host), since: startTime(os.Getpid()), ours: make(map[int]uint64)}
	q.sweep(sweepWait)
}
