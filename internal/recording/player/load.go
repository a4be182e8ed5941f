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

// call is a recorded request of the host and the events it caused.
type call struct {
	stands string  // id of a request that stays open without an answer, else ""
	events []event // up to the answer, in order
	after  []event // between the answer and the next request

	canceled bool // the host canceled it
	answered bool // with a result or an error
	asks     bool // the extension sent a request to its caller
}

// request is a call with its method and params.
type request struct {
	*call
	method string
	params json.RawMessage
}

// eventKind is the kind of an event.
type eventKind int

const (
	message eventKind = iota // the extension sends a notification or request
	reply                    // the host answers a request of the extension
	answer                   // the extension answers the call
	death                    // the run ends
)

// event happened during a call or after it.
type event struct {
	kind  eventKind
	pause time.Duration  // since the previous event
	at    cassette.Place // place of its frame, which is not kept in memory: frames are most of a cassette
	end   *cassette.End  // set for a death
}

// loader builds a tape from the records of a cassette.
type loader struct {
	tape  *Tape
	runs  map[int]*recording // runs of the extension, by number
	names map[string]string  // interned method and tool names
	keep  bool               // whether to collect all
	all   []request          // calls in recorded order; nil if keep is false
}

// recording is a run while it is loaded.
type recording struct {
	*run
	methods  map[string]string // lite extensions only: tool by method
	lite     bool
	inFlight map[string]*pending // requests of the host, by id
	tokens   map[string]*pending // requests of the host in flight, by progress token
	// requests of the host except subscriptions, oldest first; before the last one, finished ones may remain
	latest []*pending
	asked  map[string]*pending // calls by the id of a request of the extension; nil for a request outside of calls
	last   *pending            // the latest request of the host
	at     time.Duration       // time of the last event outside of calls
}

// pending is a call while its run is loaded.
type pending struct {
	*call
	id, token string
	method    string
	at        time.Duration // time of its last event
	over      bool          // no longer in flight
}

func newRecording(protocol string) *recording {
	n := &recording{run: new(run), lite: protocol == manifest.ProtocolLite, asked: make(map[string]*pending)}
	n.forget()
	return n
}

// forget drops the requests in flight.
func (n *recording) forget() {
	n.inFlight, n.tokens, n.latest, n.last = make(map[string]*pending), make(map[string]*pending), nil, nil
}

// add processes one record.
func (l *loader) add(r *cassette.Record, place cassette.Place) error {
	if r.Kind == cassette.KindStart {
		s, err := decodeStart(r)
		if err == nil && s.Extension == l.tape.first.Extension {
			l.runs[r.Run] = newRecording(s.Protocol)
		}
		return err
	}
	n := l.runs[r.Run]
	if n == nil { // another extension's run
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
			n.forget() // requests of the handshake are not replayed
		}
	case cassette.KindSent, cassette.KindReceived:
		m, err := jsonrpc.Decode(r.Payload)
		if err != nil || len(n.offers) == 0 {
			return nil // the host ignored it too, or it belongs to the handshake
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

// sent processes a frame of the host.
func (l *loader) sent(n *recording, at time.Duration, m jsonrpc.Message, place cassette.Place) {
	switch {
	case m.Method == "": // the answer to a request of the extension
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
		if method != protocol.MethodToolsList { // players answer tools/list from the descriptors
			l.tape.index.add(key{n.modern(), l.once(method), canonical(params)}, l.once(nameOf(params)), p.call)
		}
	}
}

// once interns name.
func (l *loader) once(name string) string {
	if known, ok := l.names[name]; ok {
		return known
	}
	if l.names == nil {
		l.names = make(map[string]string)
	}
	name = strings.Clone(name) // it may alias a frame
	l.names[name] = name
	return name
}

// begins puts a request in flight. If two share an id, the later one gets the answer.
func (n *recording) begins(p *pending) {
	n.inFlight[p.id], n.last = p, p
	if p.token != "" {
		n.tokens[p.token] = p
	}
	if n.dropOver(); p.method != protocol.MethodListen {
		n.latest = append(n.latest, p)
	}
}

// liteParams returns tools/call params for a request to a lite extension.
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

// received processes a frame of the extension.
func (n *recording) received(at time.Duration, m jsonrpc.Message, place cassette.Place) {
	if m.Method == "" {
		p := n.inFlight[string(m.ID)]
		if p == nil {
			return // late, or the request was sent before the recording began
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

// callOf returns the call that a message of the extension belongs to: by progress token, by the stream it arrived
// on, or else the latest in flight. It returns nil without a call in flight.
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

// dropOver removes finished requests from the end of n.latest.
func (n *recording) dropOver() {
	for len(n.latest) > 0 && n.latest[len(n.latest)-1].over {
		n.latest[len(n.latest)-1] = nil
		n.latest = n.latest[:len(n.latest)-1]
	}
}

// progressToken returns the token in m, or nil.
func progressToken(m *jsonrpc.Message) json.RawMessage {
	if !bytes.Contains(m.Params, []byte(protocol.MetaProgressToken)) {
		return nil
	}
	if m.Method == protocol.MethodProgress {
		return rawjson.Get(m.Params, protocol.MetaProgressToken)
	}
	return rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProgressToken)
}

// happens adds an event to p if it is in flight, else to the events after the latest call.
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

// ended processes the end of the run, which adds a death to the events of every call in flight.
func (n *recording) ended(at time.Duration, e *cassette.End) {
	if e.Kind == "" || e.Kind == protocol.ShuttingDown { // the host stopped the run
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
