package sweep

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ResourceLocks is RLIMIT_LOCKS, the resource whose hard limit is the mark.
const ResourceLocks = 10

// OwnMarks are the marks for the children of this process; none if the system cannot mark them.
var OwnMarks = sync.OnceValue(func() Marks {
	limit, _ := Limit(os.Getpid())
	return marksOf(os.Getpid(), StartTime(os.Getpid()), limit)
})

// Limit returns the limit of pid, by which it is marked; false if pid is gone or hidden.
func Limit(pid int) (uint64, bool) {
	var r reader
	return r.limit(pid)
}

func (r *reader) limit(pid int) (uint64, bool) {
	var l unix.Rlimit
	if unix.Prlimit(pid, ResourceLocks, nil, &l) == nil {
		return l.Max, true
	}
	// The limits of other users' processes can be read only here.
	_, line, found := bytes.Cut(r.read(pid, "limits"), []byte("\nMax file locks "))
	fields := bytes.Fields(line)
	if !found || len(fields) < 2 {
		return 0, false
	}
	if string(fields[1]) == "unlimited" {
		return unix.RLIM_INFINITY, true
	}
	limit, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return limit, err == nil
}

// Find returns the running processes that bear one of m.
func Find(m Marks) (all []Found) {
	var r reader
	for _, pid := range pids() {
		limit, ok := r.limit(pid)
		if !ok || !m.Has(limit) {
			continue
		}
		if s, ok := r.stat(pid); ok && !s.dead {
			all = append(all, Found{PID: pid, Name: r.name(pid), Start: s.start, Parent: s.parent, Session: s.session})
		}
	}
	return all
}

// Runs reports whether f has not ended.
func (f Found) Runs() bool {
	var r reader
	s, ok := r.stat(f.PID)
	return ok && s.start == f.Start && !s.dead
}

func (r *reader) name(pid int) string { return string(bytes.TrimSpace(r.read(pid, "comm"))) }

// End kills the processes that bear one of m, which are those of a host that has ended, until none is left
// or limit has passed. It returns all that it found, and those that still run. While that host runs,
// End does nothing.
func End(m Marks, limit time.Duration) (found, survived []Found) {
	if m.Last == 0 || m.First>>startShift&maxStart == StartTime(m.pid())&maxStart {
		return nil, nil
	}
	if found = Find(m); len(found) == 0 {
		return nil, nil
	}
	q := Sweeper{Marks: m, Known: make(map[int]uint64)}
	q.Sweep(limit)
	return found, Find(m)
}
