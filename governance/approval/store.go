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
	"github.com/exthost/exthost/protocol"
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
	// Refused is called with an answer of a client that does not count, and with a client that is asked no more, on
	// the goroutine that asks the client. Nil: it is not called.
	Refused func(q Request, why string)
	// Dashboard returns the address at which operators answer in a browser, "" if there is none. Nil: there is none.
	Dashboard func() string
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
	Policy    string    `json:"policy"`    // the policy that asks, or "hook NAME"
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
	AskedIn   string    `json:"asked_in,omitempty"`    // the client in which it is asked too, now; "" for none
}

// By names what asks in a sentence: a policy or a hook.
func (q *Request) By() string {
	if strings.HasPrefix(q.Policy, "hook ") {
		return q.Policy
	}
	return "policy " + q.Policy
}

// Store holds the pending requests. It is a [governance.Approver]. Its methods are safe
// for concurrent use.
type Store struct {
	o Options

	mu         sync.Mutex // guards the fields below
	pending    []*pendingRequest
	ended      []ended        // the latest answered requests, the oldest first
	remembered []grant        // approvals that hold for a session, the oldest first
	paces      map[string]int // by client that may approve, its fast answers in a row
	changed    chan struct{}  // closed and replaced at each change
}

type pendingRequest struct {
	Request
	subject subject
	size    int                    // of the payload, in bytes
	hidden  []display.Hidden       // characters of the payload that a reader does not see
	session string                 // for which a yes holds; "": it holds for the one call
	answer  chan governance.Answer // buffered; nil while no caller waits
	early   governance.Answer      // the approval, if Approved is set
}

// subject identifies the call that an approval is valid for. session is "" for named callers,
// because such a caller may repeat the call in another session.
type subject struct{ caller, session, node, extension, tool, method, policy, flow, hash string }

// ended is a request that was answered.
type ended struct {
	id string
	governance.Answer
}

// endedError is [ErrUnknown] for a request that was answered already; its text names the person who
// answered.
type endedError struct{ ended }

func (e *endedError) Error() string {
	return e.id + " was " + map[bool]string{true: "approved", false: "denied"}[e.Approved] + " already, by " +
		e.Answer.String()
}

func (e *endedError) Is(target error) bool { return target == ErrUnknown }

// maxEnded is how many answered requests are remembered. The error of a second answer then names
// the person who gave the first.
const maxEnded = 64

// holdsForSession begins the reason of a request whose approval is remembered, wherever it is shown.
const holdsForSession = "a yes holds for equal calls until the session ends; "

var _ governance.Approver = (*Store)(nil)

// NewStore returns an empty store.
func NewStore(o Options) *Store {
	return &Store{o: o, paces: make(map[string]int), changed: make(chan struct{})}
}

// Ask implements [governance.Approver]: it waits for Approve, Deny or the answer of the client that made the call. If
// an equal call was canceled and then approved, Ask returns that approval at once and removes it. The error is that of
// ctx, or says that there are too many requests.
func (s *Store) Ask(ctx context.Context, x *governance.Exchange, q governance.ApprovalRequest,
) (governance.Answer, error) {
	own, err := s.newRequest(ctx, x, q, time.Now())
	if err != nil {
		return governance.Answer{}, err
	}
	shown, answered, asksClient := own.Request, own.answer, s.asksClient(x, q)
	own, early, err := s.add(own, asksClient)
	if err != nil || early.Approved {
		return early, err
	}
	if shown.ID == own.ID && s.o.Asked != nil {
		s.o.Asked(shown)
	}
	shown.ID = own.ID // it never changes
	if x.Client != nil {
		defer x.Client.Waits(ctx, "waits for an approval: "+s.next(shown.ID))()
	}
	if asksClient {
		defer s.askClient(ctx, &asking{own, shown, answered, x.Client, x.ToolRisk(), q.Where})()
	}
	select {
	case a := <-answered:
		return a, nil
	case <-ctx.Done():
		return s.abandon(ctx, own)
	}
}

// next says how operators answer the request id; "" is any request.
func (s *Store) next(id string) string {
	text := strings.TrimSpace("exthost calls approve " + id)
	if s.o.Dashboard != nil {
		if at := s.o.Dashboard(); at != "" {
			text += ", or " + at
		}
	}
	return text
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
	reason := s.o.Secrets.Text(q.Reason, maxReason)            // a reason may quote the payload
	shown, err := s.o.Secrets.JSON(ctx, payload, 2*maxPreview) // display.Cut marks that the text was cut
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
	remembered := ""
	if q.Remember == protocol.RememberSession {
		remembered = x.Session
	}
	if remembered != "" {
		reason = strings.TrimSuffix(holdsForSession+reason, "; ")
	}
	return &pendingRequest{
		session: remembered,
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
		size:    len(payload),
		hidden:  display.FindHidden(payload),
		answer:  make(chan governance.Answer, 1),
	}, nil
}

// add adds q, or puts it in the place of an equal request whose caller has canceled, under that one's id. If
// such a request is approved already, add removes it and returns the approval. An approval that
// holds for the session is returned too, and stays.
func (s *Store) add(q *pendingRequest, asksClient bool) (_ *pendingRequest, early governance.Answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(time.Now())
	if a := s.recallLocked(q, asksClient); a.Approved {
		return q, a, nil
	}
	fromCaller := 0
	for i, old := range s.pending {
		if old.subject == q.subject && !old.Waiting {
			if old.Approved != "" {
				s.removeLocked(i)
				return old, old.early, nil
			}
			q.ID = old.ID
			old.Request, old.session, old.answer = q.Request, q.session, q.answer
			s.changeLocked()
			return old, early, nil
		}
		if old.subject.caller == q.subject.caller && old.subject.session == q.subject.session &&
			old.subject.node == q.subject.node {
			fromCaller++
		}
	}
	if len(s.pending) >= maxPending || fromCaller >= maxPerCaller {
		return q, early, fmt.Errorf("%d approval requests wait for an answer already, %d of this caller: answer some "+
			"of them first", len(s.pending), fromCaller)
	}
	s.pending = append(s.pending, q)
	s.changeLocked()
	return q, early, nil
}

// abandon records that the caller of q no longer waits.
func (s *Store) abandon(ctx context.Context, q *pendingRequest) (governance.Answer, error) {
	next := s.next("")
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case a := <-q.answer: // sent just before ctx ended
		return a, nil
	default:
	}
	q.Waiting, q.answer, q.AskedIn = false, nil, ""
	if i := slices.Index(s.pending, q); i >= 0 && (s.o.Strict || !time.Now().Before(q.Expires)) {
		s.removeLocked(i)
	} else {
		s.changeLocked()
	}
	return governance.Answer{Next: next}, ctx.Err()
}

// Approve allows the call of request id once: now if its caller waits, else when the same
// caller repeats the same call before the request expires. by names the person.
func (s *Store) Approve(id, by string) error {
	return s.resolve(id, governance.Answer{Approved: true, By: by, Where: protocol.AtOperator})
}

// Deny denies the call of request id. reason may be "".
func (s *Store) Deny(id, by, reason string) error {
	if reason != "" {
		by += ": " + reason
	}
	return s.resolve(id, governance.Answer{By: by, Where: protocol.AtOperator})
}

func (s *Store) resolve(id string, a governance.Answer) error {
	if a.By == "" {
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
	if a.Approved && q.Approved != "" {
		return fmt.Errorf("%s: %w; it was approved by %s", id, ErrAnswered, q.Approved)
	}
	s.settleLocked(i, a)
	return nil
}

// settleLocked gives the answer to request number i: now if its caller waits, else to its next attempt.
func (s *Store) settleLocked(i int, a governance.Answer) {
	q := s.pending[i]
	a.After = time.Since(q.Since)
	switch {
	case q.Waiting:
		q.answer <- a
		if a.Approved && q.session != "" {
			s.rememberLocked(q, a)
		}
		s.removeLocked(i)
	case a.Approved:
		q.Approved, q.early = a.By, a
		s.changeLocked()
	default:
		s.removeLocked(i)
	}
	s.ended = append(s.ended[max(0, len(s.ended)-maxEnded+1):], ended{q.ID, a})
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
