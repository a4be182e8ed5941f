// Package approval keeps the questions that policies ask until a person has
// answered them.
package approval

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/redact"
)

const (
	maxPending   = 256     // questions in all
	maxPerCaller = 32      // of one caller and session
	maxPreview   = 2 << 10 // bytes of arguments that a person is shown
)

// Errors of Approve and Deny.
var (
	ErrUnknown  = errors.New("there is no such question: it was answered, or nobody waits for it any more")
	ErrAnswered = errors.New("the question is approved already, and waits to be asked again")
)

// Options is what a desk may be told. The zero value is usable.
type Options struct {
	// Strict makes a question end with the call that asked it. Without it the
	// question of a caller who has given up stays until it expires: approved
	// meanwhile, it lets the same call through once when it comes again.
	Strict bool
	// Asked is told of each new question, by the goroutine that asks it: it must be
	// quick. Default: nobody is.
	Asked func(Question)
}

// Question is what a person is asked: may this call be made, once?
type Question struct {
	ID        string    `json:"id"`
	Caller    string    `json:"caller"`
	Session   string    `json:"session,omitempty"`
	Extension string    `json:"extension,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Method    string    `json:"method"`
	Policy    string    `json:"policy"`    // that wants to know
	Reason    string    `json:"reason"`    // in its words, masked
	Arguments string    `json:"arguments"` // masked and cut, for people
	Hash      string    `json:"hash"`      // SHA-256 of the arguments as they are
	Decision  string    `json:"decision_id,omitempty"`
	Since     time.Time `json:"since"`
	Expires   time.Time `json:"expires"`
	Waiting   bool      `json:"waiting"`               // the caller still waits
	Approved  string    `json:"approved_by,omitempty"` // by whom, for when it is asked again
}

// Desk is where questions wait. It is a [governance.Approver]. Its methods may be
// called by many goroutines at once.
type Desk struct {
	strict bool
	asked  func(Question)

	mu      sync.Mutex // guards what follows
	pending []*question
	changed chan struct{} // closed and made anew with each change
}

// question is one that is not settled.
type question struct {
	Question
	subject subject
	answer  chan answer // buffered; nil while nobody waits
}

// subject is what an approval is bound to. A session counts where there is no
// caller: it ends sooner than a caller's patience.
type subject struct{ caller, session, extension, tool, method, policy, flow, hash string }

type answer struct {
	approved bool
	by       string
}

var _ governance.Approver = (*Desk)(nil)

// NewDesk returns an empty desk.
func NewDesk(o Options) *Desk {
	return &Desk{strict: o.Strict, asked: o.Asked, changed: make(chan struct{})}
}

// Ask implements [governance.Approver]: it waits for Approve or Deny. An approval
// that was given after an equal call had stopped waiting is used up at once. Its
// errors are that of ctx, and that there are too many questions.
func (d *Desk) Ask(ctx context.Context, x *governance.Exchange, q governance.Question) (approved bool, by string, err error) {
	mine, err := newQuestion(ctx, x, q, time.Now())
	if err != nil {
		return false, "", err
	}
	shown := mine.Question
	mine, given, err := d.put(mine)
	if err != nil || given != "" {
		return given != "", given, err
	}
	if shown.ID == mine.ID && d.asked != nil {
		d.asked(shown)
	}
	select {
	case a := <-mine.answer:
		return a.approved, a.by, nil
	case <-ctx.Done():
		return d.leave(ctx, mine)
	}
}

func newQuestion(ctx context.Context, x *governance.Exchange, q governance.Question, now time.Time) (*question, error) {
	payload := x.Request
	if q.Flow == governance.Response {
		payload = x.Response
	}
	payload = rawjson.Delete(payload, "_meta") // differs each time
	if x.Tool != "" && q.Flow == governance.Request {
		if payload = rawjson.Get(payload, "arguments"); payload == nil {
			payload = []byte("{}")
		}
	}
	sum := sha256.Sum256(payload)
	hash := hex.EncodeToString(sum[:])
	reason, _ := redact.Default().Text(q.Reason) // which may repeat what is asked for
	// A secret that the cut would halve is masked, because it is still seen whole.
	shown, _, err := redact.Default().JSON(ctx, payload[:min(len(payload), 2*maxPreview)])
	if err != nil {
		return nil, err
	}
	session := x.Session
	if x.Caller != "" {
		session = ""
	}
	expiry := q.Expiry
	if expiry <= 0 {
		expiry = governance.DefaultExpiry
	}
	return &question{
		Question: Question{
			ID: newID(), Caller: x.Caller, Session: x.Session, Extension: x.Extension, Tool: x.Tool, Method: x.Method, Policy: q.Policy,
			Reason: reason, Arguments: cut(string(shown), maxPreview), Hash: hash, Decision: x.ID, Since: now, Expires: now.Add(expiry), Waiting: true,
		},
		subject: subject{x.Caller, session, x.Extension, x.Tool, x.Method, q.Policy, string(q.Flow), hash},
		answer:  make(chan answer, 1),
	}, nil
}

// newID returns eight letters and digits, easy to type.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

// cut returns at most n bytes of s.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// put adds q, or takes the place of an equal question that nobody waits for. given
// says who has approved that already; it is then used up.
func (d *Desk) put(q *question) (_ *question, given string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expireLocked(time.Now())
	own := 0
	for i, old := range d.pending {
		if old.subject == q.subject && !old.Waiting {
			if old.Approved != "" {
				d.removeLocked(i)
				return nil, old.Approved, nil
			}
			old.Waiting, old.answer, old.Expires = true, q.answer, q.Expires
			d.changeLocked()
			return old, "", nil
		}
		if old.subject.caller == q.subject.caller && old.subject.session == q.subject.session {
			own++
		}
	}
	if len(d.pending) >= maxPending || own >= maxPerCaller {
		return nil, "", fmt.Errorf("%d questions wait for an answer already, %d of this caller: answer some of them first", len(d.pending), own)
	}
	d.pending = append(d.pending, q)
	d.changeLocked()
	return q, "", nil
}

// leave is what becomes of a question whose asker stops waiting.
func (d *Desk) leave(ctx context.Context, q *question) (approved bool, by string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case a := <-q.answer: // came in the last moment
		return a.approved, a.by, nil
	default:
	}
	q.Waiting, q.answer = false, nil
	if i := slices.Index(d.pending, q); i >= 0 && (d.strict || !time.Now().Before(q.Expires)) {
		d.removeLocked(i)
	} else {
		d.changeLocked()
	}
	return false, "", ctx.Err()
}

// Approve lets the call of question id be made, once: now if its caller waits, else
// when the same caller makes the same call again before the question expires. by
// names who says so.
func (d *Desk) Approve(id, by string) error {
	return d.settle(id, answer{true, by})
}

// Deny ends the call of question id. reason may be "".
func (d *Desk) Deny(id, by, reason string) error {
	if reason != "" {
		by += ": " + reason
	}
	return d.settle(id, answer{false, by})
}

func (d *Desk) settle(id string, a answer) error {
	if a.by == "" {
		return errors.New("an answer needs somebody who gives it")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expireLocked(time.Now())
	i := slices.IndexFunc(d.pending, func(q *question) bool { return q.ID == id })
	if i < 0 {
		return fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	q := d.pending[i]
	switch {
	case q.Waiting:
		q.answer <- a
		d.removeLocked(i)
	case a.approved && q.Approved != "":
		return fmt.Errorf("%s: %w", id, ErrAnswered)
	case a.approved:
		q.Approved = a.by
		d.changeLocked()
	default:
		d.removeLocked(i)
	}
	return nil
}

// List returns the questions, the oldest first.
func (d *Desk) List() []Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expireLocked(time.Now())
	list := make([]Question, len(d.pending))
	for i, q := range d.pending {
		list[i] = q.Question
	}
	return list
}

// Changed returns a channel that is closed at the next change of [Desk.List],
// other than by expiry.
func (d *Desk) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (d *Desk) changeLocked() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *Desk) removeLocked(i int) {
	d.pending = slices.Delete(d.pending, i, i+1)
	d.changeLocked()
}

// expireLocked drops what nobody waits for any more. Who waits ends by its ctx.
func (d *Desk) expireLocked(now time.Time) {
	before := len(d.pending)
	d.pending = slices.DeleteFunc(d.pending, func(q *question) bool { return !q.Waiting && !now.Before(q.Expires) })
	if len(d.pending) < before {
		d.changeLocked()
	}
}
