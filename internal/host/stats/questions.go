package stats

import (
	"slices"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/status"
)

// Asked records a question to the caller of a call until answered is called. Open questions are bounded by the
// connections of extensions.
func (h *History) Asked(q status.Question) (answered func()) {
	q.Since = time.Now()
	for _, name := range []*string{&q.Method, &q.Tool, &q.Caller} {
		*name = display.Cut(*name, maxName)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[*status.Question]struct{})
	}
	h.open[&q] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.open, &q)
	}
}

// Questions returns the unanswered questions, oldest first.
func (h *History) Questions() []status.Question {
	h.mu.Lock()
	list := make([]status.Question, 0, len(h.open))
	for q := range h.open {
		list = append(list, *q)
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b status.Question) int { return a.Since.Compare(b.Since) })
	return list[:min(len(list), keptCalls)]
}
