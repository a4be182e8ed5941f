package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
)

// reply answers a request. If later is set, the transport may hold the answer back until the reader has no more input.
// After the end of the connection nothing is sent.
func (c *Conn) reply(req *Message, result json.RawMessage, err error, later bool) {
	if c.ctx.Err() != nil {
		return
	}
	m := Message{ID: req.ID, Result: result, Encoder: req.Encoder, Bare: c.o.Bare}
	if err != nil {
		m.Result, m.Encoder, m.Error = nil, nil, rawError(err)
	}
	if t, ok := c.t.(Batcher); ok && later {
		err = t.WriteLater(c.ctx, m)
	} else {
		err = c.t.Write(c.ctx, m)
	}
	if c.ctx.Err() == nil && errors.Is(err, errNotJSON) { // after another error the peer may have the answer
		c.refuse(req.ID, &Error{Code: CodeInternal, Message: err.Error()})
	}
}

// reject refuses a request on the reader and counts it as unsolicited.
func (c *Conn) reject(m *Message, reason *Error) {
	c.countUnsolicited(m)
	c.refuse(m.ID, reason)
}

// refuse answers a request with an error without blocking the reader. A message without an id counts as dropped.
func (c *Conn) refuse(id json.RawMessage, reason *Error) {
	id = bytes.Clone(id) // do not keep the whole request in memory
	c.update(func(s *state) {
		if id == nil {
			s.stats.Dropped++
			return
		}
		c.enqueue(s, &s.replies, len(id), func(ctx context.Context) {
			_ = c.t.Write(ctx, Message{ID: id, Error: rawError(reason), Bare: c.o.Bare}) // errors as in reply
		})
	})
}

// queue is a bounded queue of jobs, run in order by one goroutine that exists only while there are jobs.
type queue struct {
	jobs    []job
	waiting int // bytes of queued and running jobs
	running bool
}

// job is a queued function, with the number of bytes that it keeps in memory.
type job struct {
	bytes int
	run   func(context.Context)
}

// enqueue adds a job, which keeps that many bytes in memory, to a queue, inside update, and reports
// whether there was room.
func (c *Conn) enqueue(s *state, l *queue, bytes int, run func(context.Context)) bool {
	if s.endErr != nil || len(l.jobs) >= maxQueue || l.waiting >= maxWaiting {
		s.stats.Dropped++
		return false
	}
	l.jobs = append(l.jobs, job{bytes, run})
	l.waiting += bytes
	if !l.running {
		l.running = true
		c.wg.Go(func() { c.runQueue(l) })
	}
	return true
}

// Settle waits until Options.Abandoned has returned for all calls abandoned so far, and all refusals so far are
// written. It returns early when the connection or ctx ends.
func (c *Conn) Settle(ctx context.Context) {
	done := make(chan struct{})
	c.update(func(s *state) {
		if !s.replies.running || !c.enqueue(s, &s.replies, 0, func(context.Context) { close(done) }) {
			close(done)
		}
	})
	select {
	case <-done:
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
}

func (c *Conn) runQueue(l *queue) {
	for {
		var jobs []job
		c.update(func(*state) {
			jobs, l.jobs = l.jobs, nil
			l.running = len(jobs) > 0
		})
		if len(jobs) == 0 {
			return
		}
		for n, job := range jobs {
			job.run(c.ctx)
			jobs[n].run = nil // free what the job keeps before the other jobs run
			c.update(func(*state) { l.waiting -= job.bytes })
		}
	}
}
