package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/exthost/exthost/governance"
)

// maxOpen bounds the intents without an outcome that a host or a reader remembers. A host has
// far fewer calls in flight.
const maxOpen = 1 << 14

// intents are the recorded requests of calls in flight, by decision id.
type intents map[string]intent

// intent is a recorded request. The call holds raw as well, and nobody changes its bytes.
type intent struct {
	Payload
	raw json.RawMessage
}

// intend records the request of x before it is sent, so that the log has it even if the host is
// killed before x ends.
func (l *Log) intend(ctx context.Context, x *governance.Exchange) error {
	if err := l.tryAgain(ctx); err != nil {
		return err
	}
	r, err := l.newIntent(ctx, x)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.sent == nil {
		l.sent = make(intents)
	}
	if len(l.sent) < maxOpen {
		l.sent[x.ID] = intent{r.Request, x.Request}
	}
	l.mu.Unlock()
	return l.Append(ctx, r)
}

// takeIntent removes and returns the intent recorded under id, or the zero intent.
func (l *Log) takeIntent(id string) intent {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.sent[id]
	delete(l.sent, id)
	return i
}

// unanswered collects the intents for which a reader has not found an outcome, at most maxOpen.
type unanswered struct {
	byID  map[string]Record
	until time.Time // the latest time in the log
}

func (u *unanswered) note(at time.Time, ms float64) {
	if at = at.Add(time.Duration(ms * float64(time.Millisecond))); at.After(u.until) {
		u.until = at
	}
}

func (u *unanswered) add(r Record) {
	if u.byID == nil {
		u.byID = make(map[string]Record)
	}
	if len(u.byID) < maxOpen {
		u.byID[r.ID] = r
	}
}

func (u *unanswered) ended(id string) { delete(u.byID, id) }

// lost removes the intents and returns them as [Lost]. Their host ended after the last record and
// before next, when another host opened the log; next is zero if none has.
func (u *unanswered) lost(next time.Time) []Record {
	words := "was in flight when the host ended, after " + u.until.UTC().Format(time.RFC3339)
	if !next.IsZero() {
		words = "was in flight when the host ended, between " + u.until.UTC().Format(time.RFC3339) + " and " +
			next.UTC().Format(time.RFC3339)
	}
	return u.take(Lost, words)
}

// take removes the intents and returns them in the order of the log, with outcome o and words as
// the error.
func (u *unanswered) take(o Outcome, words string) []Record {
	list := make([]Record, 0, len(u.byID))
	for _, r := range u.byID {
		r.Outcome, r.Error = o, words
		list = append(list, r)
	}
	clear(u.byID)
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// rest removes the intents that are left at the end of the log at path, and returns them: as
// [Pending] if a process has the log open for writing, else as [Lost].
func (u *unanswered) rest(path string) []Record {
	if len(u.byID) == 0 {
		return nil
	}
	if written(path) {
		return u.take(Pending, "")
	}
	return u.lost(time.Time{})
}
