package player

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// call is a recorded request of the host and what came of it.
type call struct {
	stands string  // its id, of a request that has no answer while it lasts; else ""
	events []event // up to the answer, in order
	after  []event // between the answer and the next request

	canceled bool // the host gave it up
	answered bool // with a result or an error
	asks     bool // the extension asked its caller something
}

// request is a call with what was asked for.
type request struct {
	*call
	method string
	params json.RawMessage
}

// eventKind is what happens at a point of a call.
type eventKind int

const (
	message eventKind = iota // the extension sends a notification or a request
	reply                    // the extension gets the answer to a request of its own
	answer                   // the extension answers the call
	death                    // the run ends
)

// event is one thing that happened during a call, or after it.
type event struct {
	kind  eventKind
	pause time.Duration  // since the event before
	at    cassette.Place // of its frame: a tape holds no frames, which are most of a cassette
	end   *cassette.End  // of a death
}

// loader makes a tape of the records of a cassette.
type loader struct {
	tape  *Tape
	runs  map[int]*recording // of the extension, by their number
	names map[string]string  // of methods and tools, each once
	keep  bool               // all is the calls in recorded order, which else is nil
	all   []request
}

// recording is a run while it is read.
type recording struct {
	*run
	methods  map[string]string // of a lite extension: tools by their methods
	lite     bool
	inFlight map[string]*pending // requests of the host, by id
	tokens   map[string]*pending // those with a progress token, by it
	// requests but subscriptions, the oldest first; those in flight, and some that no longer are
	latest []*pending
	asked  map[string]*pending // requests of the extension, by id; nil: it belongs to no call
	last   *pending            // the latest request of the host
	at     time.Duration       // of the latest event outside of calls
}

// pending is a call while its run is read.
type pending struct {
	*call
	id, token string
	method    string
	at        time.Duration // of its latest event
	over      bool          // it is no longer in flight
}

// newRecording is a run before its first frame.
func newRecording(protocol string) *recording {
	n := &recording{run: new(run), lite: protocol == manifest.ProtocolLite, asked: make(map[string]*pending)}
	n.forget()
	return n
}

// forget forgets the requests in flight.
func (n *recording) forget() {
	n.inFlight, n.tokens, n.latest, n.last = make(map[string]*pending), make(map[string]*pending), nil, nil
}

// add takes one record.
func (l *loader) add(r *cassette.Record, place cassette.Place) error {
	if r.Kind == cassette.KindStart {
		s, err := decodeStart(r)
		if err == nil && s.Extension == l.tape.first.Extension {
			l.runs[r.Run] = newRecording(s.Protocol)
		}
		return err
	}
	n := l.runs[r.Run]
	if n == nil { // of another extension
		return nil
	}
	switch r.Kind {
	case cassette.KindOffer:
		o, err := cassette.DecodeOffer(r.Payload)
		if err != nil {
			return err
		}
		if n.offers = append(n.offers, o); len(n.offers) == 1 {
			l.tape.runs = append(l.tape.runs, n.run)
			n.methods = o.ToolsByMethod
			n.forget() // those of the handshake
		}
	case cassette.KindSent, cassette.KindReceived:
		m, err := jsonrpc.Decode(r.Payload)
		if err != nil || len(n.offers) == 0 {
			return nil // the host took it for no frame either, or it is of the handshake
		}
		m.Of = r.Of
		if r.Kind == cassette.KindSent {
			l.sent(n, r.At, m, place)
		} else {
			n.received(r.At, m, place)
		}
	case cassette.KindEnd:
		var e cassette.End
		if err := json.Unmarshal(r.Payload, &e); err != nil {
			return err
		}
		if n.ended(r.At, &e); len(n.offers) == 0 {
			delete(l.runs, r.Run)
		}
	}
	return nil
}

// sent takes a frame of the host.
func (l *loader) sent(n *recording, at time.Duration, m jsonrpc.Message, place cassette.Place) {
	switch {
	case m.Method == "": // it answers the extension
		if p, ok := n.asked[string(m.ID)]; ok {
			delete(n.asked, string(m.ID))
			n.happens(p, at, event{kind: reply, at: place})
		}
	case m.Method == protocol.MethodCancelled:
		if p := n.inFlight[string(rawjson.Get(m.Params, "requestId"))]; p != nil {
			p.canceled = true
		}
	case m.ID != nil:
		method, params := m.Method, m.Params
		if n.lite {
			method, params = protocol.MethodToolsCall, liteParams(n.methods, m.Method, m.Params)
		}
		p := &pending{
			call:   new(call),
			id:     string(m.ID),
			method: method,
			at:     at,
			token:  string(rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProgressToken)),
		}
		if standing(method) {
			p.stands = p.id
		}
		n.begins(p)
		if l.keep {
			l.all = append(l.all, request{p.call, method, params})
		}
		if method != protocol.MethodToolsList { // players list the offers
			l.tape.index.add(key{n.modern(), l.once(method), canonical(params)}, l.once(nameOf(params)), p.call)
		}
	}
}

// once returns a text that is equal to name, and the same for all that are equal.
func (l *loader) once(name string) string {
	if known, ok := l.names[name]; ok {
		return known
	}
	if l.names == nil {
		l.names = make(map[string]string)
	}
	name = strings.Clone(name) // it may be a part of a frame
	l.names[name] = name
	return name
}

// begins puts a request in flight. Of two with one id, the later one is answered.
func (n *recording) begins(p *pending) {
	n.inFlight[p.id], n.last = p, p
	if p.token != "" {
		n.tokens[p.token] = p
	}
	if n.dropOver(); p.method != protocol.MethodListen {
		n.latest = append(n.latest, p)
	}
}

// liteParams returns the params of tools/call for a request of a lite extension.
func liteParams(tools map[string]string, method string, arguments json.RawMessage) json.RawMessage {
	name := method
	if tool, ok := tools[method]; ok {
		name = tool
	}
	params := rawjson.AppendText([]byte(`{"name":`), name)
	if len(arguments) > 0 {
		params = append(append(params, `,"arguments":`...), arguments...)
	}
	return append(params, '}')
}

// received takes a frame of the extension.
func (n *recording) received(at time.Duration, m jsonrpc.Message, place cassette.Place) {
	if m.Method == "" {
		p := n.inFlight[string(m.ID)]
		if p == nil {
			return // late, or of a request before the recording
		}
		p.answered, p.asks = true, p.asks || rawjson.Get(m.Result, "inputRequests") != nil
		n.happens(p, at, event{kind: answer, at: place})
		p.over = true
		delete(n.inFlight, p.id)
		if n.tokens[p.token] == p {
			delete(n.tokens, p.token)
		}
		return
	}
	p := n.callOf(&m)
	if m.ID != nil {
		n.asked[string(m.ID)] = p
		if p != nil && !p.over {
			p.asks = true
		}
	}
	n.happens(p, at, event{kind: message, at: place})
}

// callOf returns the call that a message of the extension belongs to: the one that it names, the one
// on whose stream it came, or the latest in flight. Nil: none is in flight.
func (n *recording) callOf(m *jsonrpc.Message) *pending {
	if p := n.tokens[string(progressToken(m))]; p != nil {
		return p
	}
	if p := n.inFlight[string(m.Of)]; p != nil && p.method != protocol.MethodListen {
		return p
	}
	if m.Method == protocol.MethodSubscriptionAcknowledged {
		if p := n.inFlight[string(rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaSubscriptionID))]; p != nil {
			return p
		}
	}
	if n.dropOver(); len(n.latest) == 0 {
		return nil
	}
	return n.latest[len(n.latest)-1]
}

// dropOver removes the requests that are no longer in flight from the end of n.latest.
func (n *recording) dropOver() {
	for len(n.latest) > 0 && n.latest[len(n.latest)-1].over {
		n.latest[len(n.latest)-1] = nil
		n.latest = n.latest[:len(n.latest)-1]
	}
}

// progressToken returns the token in a message, nil without one.
func progressToken(m *jsonrpc.Message) json.RawMessage {
	if !bytes.Contains(m.Params, []byte(protocol.MetaProgressToken)) {
		return nil
	}
	if m.Method == protocol.MethodProgress {
		return rawjson.Get(m.Params, protocol.MetaProgressToken)
	}
	return rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProgressToken)
}

// happens adds an event to a call in flight, or to what follows the latest call.
func (n *recording) happens(p *pending, at time.Duration, e event) {
	switch {
	case p != nil && !p.over:
		e.pause, p.at = at-p.at, at
		p.events = append(p.events, e)
	case n.last != nil:
		e.pause, n.at = at-max(n.at, n.last.at), at
		n.last.after = append(n.last.after, e)
	default:
		e.pause, n.at = max(0, at-n.at), at
		n.opening = append(n.opening, e)
	}
}

// ended takes the end of the run: a death for all calls in flight, or for none.
func (n *recording) ended(at time.Duration, e *cassette.End) {
	if e.Kind == "" || e.Kind == protocol.ShuttingDown { // the host ended it
		return
	}
	dies := event{kind: death, end: e}
	if len(n.inFlight) == 0 {
		n.happens(nil, at, dies)
		return
	}
	for _, p := range n.inFlight {
		n.happens(p, at, dies)
	}
}
