package stats

import (
	"slices"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/status"
)

// Asked records a question to the caller of a call until answered is called. Open questions are bounded by the
// connections of extensions.
func (p *Past) Asked(q status.Question) (answered func()) {
	q.Since = time.Now()
	for _, name := range []*string{&q.Method, &q.Tool, &q.Caller} {
		*name = display.Cut(*name, maxName)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = make(map[*status.Question]struct{})
	}
	p.open[&q] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, &q)
	}
}

// Questions returns the unanswered questions, oldest first.
func (p *Past) Questions() []status.Question {
	p.mu.Lock()
	list := make([]status.Question, 0, len(p.open))
	for q := range p.open {
		list = append(list, *q)
	}
	p.mu.Unlock()
	slices.SortFunc(list, func(a, b status.Question) int { return a.Since.Compare(b.Since) })
	return list[:min(len(list), keptCalls)]
}
