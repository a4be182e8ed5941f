package sweep

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ResourceLocks is RLIMIT_LOCKS, the resource whose hard limit is a process's mark.
const ResourceLocks = 10

// OwnMarks returns the marks for children of this process; empty if the system cannot mark them.
var OwnMarks = sync.OnceValue(func() Marks {
	limit, _ := Limit(os.Getpid())
	return marksOf(os.Getpid(), StartTime(os.Getpid()), limit)
})

// Limit returns the limit that marks pid; false if pid has ended or is hidden.
func Limit(pid int) (uint64, bool) {
	var r reader
	return r.limit(pid)
}

func (r *reader) limit(pid int) (uint64, bool) {
	var l unix.Rlimit
	if unix.Prlimit(pid, ResourceLocks, nil, &l) == nil {
		return l.Max, true
	}
	// The limits of other users' processes can be read only from this file.
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

// Find returns the running processes whose mark is within m.
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

// Runs reports whether f is still running.
func (f Found) Runs() bool {
	var r reader
	s, ok := r.stat(f.PID)
	return ok && s.start == f.Start && !s.dead
}

func (r *reader) name(pid int) string { return string(bytes.TrimSpace(r.read(pid, "comm"))) }

// HostRuns reports whether the host with the marks m is running. It is false for empty marks.
func (m Marks) HostRuns() bool {
	return m.Last != 0 && m.First>>startShift&maxStart == StartTime(m.pid())&maxStart
}

// End kills the processes that a dead host has left behind, until none runs or limit has passed. m
// are the marks of that host. End returns what it found and what still runs. It does nothing while
// the host runs.
func End(m Marks, limit time.Duration) (found, survived []Found) {
	if m.Last == 0 || m.HostRuns() {
		return nil, nil
	}
	if found = Find(m); len(found) == 0 {
		return nil, nil
	}
	q := Sweeper{Marks: m, Known: make(map[int]uint64)}
	q.Sweep(limit)
	return found, Find(m)
}
