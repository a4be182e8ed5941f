// Package background runs jobs that nobody waits for, a few at a time.
package background

import "sync"

// Bounds of a queue: its goroutines, and the jobs that may wait for them.
const (
	maxWorkers = 4
	maxJobs    = 256
)

// Queue runs jobs on up to 4 goroutines, which end when no job is left; its owner counts the
// jobs that it must wait for. The zero value is empty. Its methods may be called by many
// goroutines at once.
type Queue struct {
	mu      sync.Mutex // guards what follows
	jobs    []func()
	workers int
}

// Push adds a job. It returns false when 256 jobs wait already.
func (q *Queue) Push(job func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) >= maxJobs {
		return false
	}
	q.jobs = append(q.jobs, job)
	if q.workers < maxWorkers {
		q.workers++
		go q.work() // ends when the queue is empty; the owner of the queue waits for its jobs
	}
	return true
}

func (q *Queue) work() {
	for {
		q.mu.Lock()
		if len(q.jobs) == 0 {
			q.jobs = nil
			q.workers--
			q.mu.Unlock()
			return
		}
		job := q.jobs[0]
		q.jobs[0], q.jobs = nil, q.jobs[1:]
		q.mu.Unlock()
		job()
	}
}
