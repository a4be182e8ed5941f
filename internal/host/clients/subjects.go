package clients

import (
	"context"
	"time"
)

// maxSubjects bounds the recorded subjects of access tokens. A server has fewer sessions.
const maxSubjects = 4096

// subject is a caller with an access token.
type subject struct {
	ctx  context.Context
	end  context.CancelFunc
	used time.Time
}

// Subject reports whether the subject of an access token may use this name as a caller: no client has it. until
// ends when a client gets the name, or when many other subjects have come since this one was last seen.
func (d *Directory) Subject(name string) (until context.Context, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Named(name) {
		return nil, false
	}
	s := d.subjects[name]
	if s == nil {
		if len(d.subjects) >= maxSubjects {
			d.dropSubject()
		}
		s = new(subject)
		s.ctx, s.end = context.WithCancel(d.base)
		d.subjects[name] = s
	}
	s.used = time.Now()
	return s.ctx, true
}

// dropSubject ends the subject not seen for longest. The caller holds d.mu.
func (d *Directory) dropSubject() {
	var oldest string
	for name, s := range d.subjects {
		if at := d.subjects[oldest]; at == nil || s.used.Before(at.used) {
			oldest = name
		}
	}
	d.endSubject(oldest)
}

// endSubject ends the sessions of a subject. The caller holds d.mu.
func (d *Directory) endSubject(name string) {
	if s := d.subjects[name]; s != nil {
		s.end()
		delete(d.subjects, name)
	}
}
