package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// A client of the stateless era cannot be asked: it is answered with the questions
// (resultType input_required) and repeats its request with what they brought. An
// extension of the older era, which asks and waits, is still at work meanwhile. Its
// call is held: in a goroutine of its own, under a name that only the client knows.

// holdTimeout is how long a client may take to bring its answers.
const holdTimeout = 5 * time.Minute

// holdable are the requests that may be answered with questions.
var holdable = map[string]bool{protocol.MethodToolsCall: true, protocol.MethodPromptsGet: true, protocol.MethodResourcesRead: true}

// held is a request whose extension may ask its caller something.
type held struct {
	server  *Server
	name    string // the requestState
	session *protocol.Session
	method  string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed once there is an outcome
	result  json.RawMessage
	err     error

	mu        sync.Mutex
	write     writer               // reaches the client while it waits; nil while it does not
	questions map[string]*question // that have no answer, by key
	lastKey   uint64
	news      chan struct{} // holds a token when there are questions to be put
	expiry    *time.Timer   // gives the call up; runs while the client is away
}

// question is one that waits for its answer.
type question struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage
}

var (
	errAway    = protocol.Errorf(protocol.Canceled, "the client did not come back with an answer")
	errTooMany = protocol.Errorf(protocol.Overloaded, "too many clients have questions to answer")
)

// hold runs a request that may be answered with questions.
func (s *Server) hold(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, client *requestClient) (json.RawMessage, error) {
	h := &held{server: s, name: "exthost-" + rand.Text(), session: session, method: m.Method,
		done: make(chan struct{}), questions: make(map[string]*question), news: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.write = client.write
	client.write, client.asks = h.send, h
	release := mcphttp.HoldBody(ctx)
	go func() {
		defer close(h.done)
		defer release()
		defer context.AfterFunc(s.closing, func() { h.cancel(errEnded) })()
		h.result, h.err = s.do(h.ctx, session, m, client)
	}()
	return h.attend(ctx)
}

// resume takes a held request up again with the answers that m brings; ok is false
// when m names none.
func (s *Server) resume(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, client *requestClient) (result json.RawMessage, err error, ok bool) {
	name, _ := rawjson.Text(member(m.Params, "requestState"))
	h := s.holds.get(name)
	if h == nil {
		return nil, nil, false
	}
	if h.session.Caller != session.Caller || h.session.Extension != session.Extension || h.method != m.Method {
		return nil, invalidParams("requestState is of another request"), true
	}
	if !s.holds.remove(h) { // somebody was faster
		return nil, nil, false
	}
	h.back(client.write)
	h.answer(rawjson.Get(m.Params, "inputResponses"))
	result, err = h.attend(ctx)
	return result, err, true
}

// attend waits, for the client, until there is an outcome or something to ask.
func (h *held) attend(ctx context.Context) (json.RawMessage, error) {
	for {
		select {
		case <-h.news:
			if result, err := h.away(); result != nil || err != nil {
				return result, err
			}
		case <-h.done:
			return h.result, h.err
		case <-ctx.Done():
			h.cancel(context.Cause(ctx))
			<-h.done
			return h.result, h.err
		}
	}
}

// send sends what the extension tells meanwhile; while the client is away nobody
// hears it.
func (h *held) send(ctx context.Context, m *jsonrpc.Message) error {
	h.mu.Lock()
	write := h.write
	h.mu.Unlock()
	if write == nil {
		return nil
	}
	return write(ctx, m)
}

// ask implements [asker].
func (h *held) ask(ctx context.Context, method string, params json.RawMessage, _ writer) (json.RawMessage, error) {
	if err := undeclared(h.session.Capabilities, method, params); err != nil {
		return nil, err
	}
	q := &question{method, params, make(chan json.RawMessage, 1)}
	h.mu.Lock()
	h.lastKey++
	key := "q" + strconv.FormatUint(h.lastKey, 10)
	h.questions[key] = q
	h.tellLocked()
	h.mu.Unlock()
	select {
	case answer := <-q.answer:
		return answer, nil
	case <-ctx.Done():
		h.mu.Lock()
		delete(h.questions, key)
		h.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

func (h *held) tellLocked() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// away sends the client to find answers. The questions go with it; when there are none,
// because they have been taken back or are answered, neither does the client go.
func (h *held) away() (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.questions) == 0 {
		return nil, nil
	}
	result := []byte(`{"resultType":"input_required","inputRequests":{`)
	for key, q := range h.questions {
		if result[len(result)-1] != '{' {
			result = append(result, ',')
		}
		result = append(append(append(result, '"'), key...), `":{"method":`...)
		result = append(rawjson.AppendText(result, q.method), `,"params":`...)
		result = append(append(result, orEmpty(q.params)...), '}')
	}
	result = append(append(append(result, `},"requestState":"`...), h.name...), `"}`...)
	h.write = nil
	h.expiry = time.AfterFunc(holdTimeout, func() {
		if h.server.holds.remove(h) {
			h.cancel(errAway)
		}
	})
	if !h.server.holds.put(h) {
		h.expiry.Stop()
		h.cancel(errTooMany)
		return nil, errTooMany
	}
	return result, nil
}

// back is the client's return.
func (h *held) back(write writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expiry.Stop()
	h.write = write
}

// answer hands the answers out. Questions that are still open are put again.
func (h *held) answer(responses json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, value := range rawjson.Members(responses) {
		if q := h.questions[key]; q != nil && value[0] == '{' {
			delete(h.questions, key)
			q.answer <- value // has room for the one answer
		}
	}
	if len(h.questions) > 0 {
		h.tellLocked()
	}
}

// holds are the requests whose clients are away, by name.
type holds struct {
	limit int

	mu     sync.Mutex
	byName map[string]*held
}

// put keeps h; false when there is no room.
func (s *holds) put(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byName) >= s.limit {
		return false
	}
	s.byName[h.name] = h
	return true
}

// get returns what is kept under name, nil when nothing is.
func (s *holds) get(name string) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// remove forgets h; false when somebody else has.
func (s *holds) remove(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[h.name] != h {
		return false
	}
	delete(s.byName, h.name)
	return true
}
