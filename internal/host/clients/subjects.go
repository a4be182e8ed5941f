package clients

import (
	"context"
	"time"
)

// maxSubjects bounds the subjects of access tokens that are kept, which is more than a server has sessions.
const maxSubjects = 4096

// subject is a caller with an access token.
type subject struct {
	ctx  context.Context
	end  context.CancelFunc
	used time.Time
}

// Subject reports whether the subject of an access token may be a caller by that name: no client has the
// name. until ends with the first client that has it, or when many others have come since the subject was
// seen last.
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

// dropSubject ends what the subject has open that has not been seen for longest. The caller holds d.mu.
func (d *Directory) dropSubject() {
	var oldest string
	for name, s := range d.subjects {
		if at := d.subjects[oldest]; at == nil || s.used.Before(at.used) {
			oldest = name
		}
	}
	d.endSubject(oldest)
}

// endSubject ends what a subject has open. The caller holds d.mu.
func (d *Directory) endSubject(name string) {
	if s := d.subjects[name]; s != nil {
		s.end()
		delete(d.subjects, name)
	}
}
