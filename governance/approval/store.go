// Package approval keeps the approval requests of policies until a person answers them.
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

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/text/redact"
)

const (
	maxPending   = 256     // requests in total
	maxPerCaller = 32      // per caller and session
	maxPreview   = 2 << 10 // bytes of arguments shown to a person
	maxReason    = 4 << 10 // bytes of a policy's reason
)

// Errors of Approve and Deny.
var (
	ErrUnknown  = errors.New("there is no such approval request: it was answered, or nobody waits for it any more")
	ErrAnswered = errors.New("the approval request is approved already, and waits for its call to be made again")
)

// Options configure a [Store]. The zero value is usable.
type Options struct {
	// Strict ends a request when its call is canceled. Without Strict, the request remains until it
	// expires, and an approval then lets the same call of the same caller through once.
	Strict bool
	// Asked is called with each new request by the goroutine that called Ask, so it must be quick.
	// Nil: it is not called.
	Asked func(Request)
	// Secrets masks the host's secrets in requests, in addition to those recognized by their
	// form. Default: no secrets.
	Secrets *redact.Redactor
}

// Request asks a person whether one call may be made, once.
type Request struct {
	ID        string    `json:"id"` // NODE/ID for a request at another node of the cluster
	Caller    string    `json:"caller"`
	Session   string    `json:"session,omitempty"`
	Node      string    `json:"node,omitempty"` // the cluster node of the caller; "" for this host
	Extension string    `json:"extension,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Method    string    `json:"method"`
	Policy    string    `json:"policy"`    // the policy that asks
	Reason    string    `json:"reason"`    // from the policy, masked
	Arguments string    `json:"arguments"` // masked and truncated, for display
	Hash      string    `json:"hash"`      // SHA-256 of the unmasked arguments
	Decision  string    `json:"decision_id,omitempty"`
	Since     time.Time `json:"since"`
	Expires   time.Time `json:"expires"`
	Waiting   bool      `json:"waiting"`               // a caller waits for the answer
	Approved  string    `json:"approved_by,omitempty"` // the person who approved after the caller had canceled
	Desk      string    `json:"desk,omitempty"`        // the cluster node at which the request waits; "" for this host
	DeskOnly  bool      `json:"desk_only,omitempty"`   // only operators of the desk node may answer
}

// Store holds the pending requests. It is a [governance.Approver]. Its methods are safe
// for concurrent use.
type Store struct {
	strict  bool
	asked   func(Request)
	secrets *redact.Redactor

	mu      sync.Mutex // guards the fields below
	pending []*pendingRequest
	ended   []ended       // the latest answered requests, the oldest first
	changed chan struct{} // closed and replaced at each change
}

type pendingRequest struct {
	Request
	subject subject
	answer  chan answer // buffered; nil while no caller waits
}

// subject identifies the call that an approval is valid for. session is "" for named callers,
// because such a caller may repeat the call in another session.
type subject struct{ caller, session, node, extension, tool, method, policy, flow, hash string }

type answer struct {
	approved bool
	by       string
}

// ended is a request that was answered.
type ended struct {
	id string
	answer
}

// endedError is [ErrUnknown] for a request that was answered already; its text names the person who
// answered.
type endedError struct{ ended }

func (e *endedError) Error() string {
	return e.id + " was " + map[bool]string{true: "approved", false: "denied"}[e.approved] + " already, by " + e.by
}

func (e *endedError) Is(target error) bool { return target == ErrUnknown }

// maxEnded is how many answered requests are remembered. The error of a second answer then names
// the person who gave the first.
const maxEnded = 64

var _ governance.Approver = (*Store)(nil)

// NewStore returns an empty store.
func NewStore(o Options) *Store {
	return &Store{strict: o.Strict, asked: o.Asked, secrets: o.Secrets, changed: make(chan struct{})}
}

// Ask implements [governance.Approver]: it waits for Approve or Deny. If an equal call was canceled
// and then approved, Ask returns that approval at once and removes it. The error is that of ctx, or
// says that there are too many requests.
func (s *Store) Ask(ctx context.Context, x *governance.Exchange, q governance.ApprovalRequest,
) (approved bool, by string, err error) {
	own, err := s.newRequest(ctx, x, q, time.Now())
	if err != nil {
		return false, "", err
	}
	shown := own.Request
	own, approver, err := s.add(own)
	if err != nil || approver != "" {
		return approver != "", approver, err
	}
	if shown.ID == own.ID && s.asked != nil {
		s.asked(shown)
	}
	select {
	case a := <-own.answer:
		return a.approved, a.by, nil
	case <-ctx.Done():
		return s.abandon(ctx, own)
	}
}

func (s *Store) newRequest(ctx context.Context, x *governance.Exchange, q governance.ApprovalRequest, now time.Time,
) (*pendingRequest, error) {
	payload := x.Request
	if q.Flow == governance.Response {
		payload = x.Response
	}
	payload = rawjson.Delete(payload, "_meta") // differs in each call
	if x.Tool != "" && q.Flow == governance.Request {
		if payload = rawjson.Get(payload, "arguments"); payload == nil {
			payload = []byte("{}")
		}
	}
	sum := sha256.Sum256(payload)
	hash := hex.EncodeToString(sum[:])
	reason := s.secrets.Text(q.Reason, maxReason)            // a reason may quote the payload
	shown, err := s.secrets.JSON(ctx, payload, 2*maxPreview) // display.Cut marks that the text was cut
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
	return &pendingRequest{
		Request: Request{
			ID:        strings.ToLower(rand.Text()[:8]),
			Caller:    x.Caller,
			Session:   x.Session,
			Node:      x.Node,
			Extension: x.Extension,
			Tool:      x.Tool,
			Method:    x.Method,
			Policy:    q.Policy,
			Reason:    reason,
			Arguments: display.Cut(string(shown), maxPreview),
			Hash:      hash,
			Decision:  x.ID,
			Since:     now,
			Expires:   now.Add(expiry),
			Waiting:   true,
		},
		subject: subject{x.Caller, session, x.Node, x.Extension, x.Tool, x.Method, q.Policy, string(q.Flow), hash},
		answer:  make(chan answer, 1),
	}, nil
}

// add adds q, or gives the answer channel of q to an equal request whose caller has canceled. If
// such a request is approved already, add removes it and returns the person who approved.
func (s *Store) add(q *pendingRequest) (_ *pendingRequest, approver string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(time.Now())
	fromCaller := 0
	for i, old := range s.pending {
		if old.subject == q.subject && !old.Waiting {
			if old.Approved != "" {
				s.removeLocked(i)
				return nil, old.Approved, nil
			}
			old.Waiting, old.answer, old.Expires = true, q.answer, q.Expires
			s.changeLocked()
			return old, "", nil
		}
		if old.subject.caller == q.subject.caller && old.subject.session == q.subject.session &&
			old.subject.node == q.subject.node {
			fromCaller++
		}
	}
	if len(s.pending) >= maxPending || fromCaller >= maxPerCaller {
		return nil, "", fmt.Errorf("%d approval requests wait for an answer already, %d of this caller: answer some "+
			"of them first", len(s.pending), fromCaller)
	}
	s.pending = append(s.pending, q)
	s.changeLocked()
	return q, "", nil
}

// abandon records that the caller of q no longer waits.
func (s *Store) abandon(ctx context.Context, q *pendingRequest) (approved bool, by string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case a := <-q.answer: // sent just before ctx ended
		return a.approved, a.by, nil
	default:
	}
	q.Waiting, q.answer = false, nil
	if i := slices.Index(s.pending, q); i >= 0 && (s.strict || !time.Now().Before(q.Expires)) {
		s.removeLocked(i)
	} else {
		s.changeLocked()
	}
	return false, "", ctx.Err()
}

// Approve allows the call of request id once: now if its caller waits, else when the same
// caller repeats the same call before the request expires. by names the person.
func (s *Store) Approve(id, by string) error {
	return s.resolve(id, answer{true, by})
}

// Deny denies the call of request id. reason may be "".
func (s *Store) Deny(id, by, reason string) error {
	if reason != "" {
		by += ": " + reason
	}
	return s.resolve(id, answer{false, by})
}

func (s *Store) resolve(id string, a answer) error {
	if a.by == "" {
		return errors.New("an answer needs somebody who gives it")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(time.Now())
	i := slices.IndexFunc(s.pending, func(q *pendingRequest) bool { return q.ID == id })
	if i < 0 {
		return s.unknownLocked(id)
	}
	q := s.pending[i]
	switch {
	case q.Waiting:
		q.answer <- a
		s.removeLocked(i)
	case a.approved && q.Approved != "":
		return fmt.Errorf("%s: %w; it was approved by %s", id, ErrAnswered, q.Approved)
	case a.approved:
		q.Approved = a.by
		s.changeLocked()
	default:
		s.removeLocked(i)
	}
	s.ended = append(s.ended[max(0, len(s.ended)-maxEnded+1):], ended{id, a})
	return nil
}

// unknownLocked returns the error for a request that is not pending. If the request is among the
// latest answered ones, the error names the person who answered.
func (s *Store) unknownLocked(id string) error {
	for _, e := range slices.Backward(s.ended) {
		if e.id == id {
			return &endedError{e}
		}
	}
	return fmt.Errorf("%s: %w", id, ErrUnknown)
}

// List returns the pending requests, the oldest first.
func (s *Store) List() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(time.Now())
	list := make([]Request, len(s.pending))
	for i, q := range s.pending {
		list[i] = q.Request
	}
	return list
}

// Changed returns a channel that is closed at the next change of [Store.List] other than an
// expiry.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) changeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) removeLocked(i int) {
	s.pending = slices.Delete(s.pending, i, i+1)
	s.changeLocked()
}

// expireLocked removes expired requests whose caller has canceled. Requests with a waiting caller
// end with that caller's ctx.
func (s *Store) expireLocked(now time.Time) {
	before := len(s.pending)
	s.pending = slices.DeleteFunc(s.pending,
		func(q *pendingRequest) bool { return !q.Waiting && !now.Before(q.Expires) })
	if len(s.pending) < before {
		s.changeLocked()
	}
}
