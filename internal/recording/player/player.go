package player

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Player is the transport of a replayed extension: it answers as the extension did in one recorded run.
type Player struct {
	tape     *Tape
	run      *run
	file     *os.File // the cassette; frames are read when they are sent
	protocol string

	out    chan item     // messages for the host
	closed chan struct{} // closed by Close
	close  func()
	work   concurrent.Gate // goroutines that answer calls; Close waits for them

	mu      sync.Mutex                    // guards the fields below
	calls   map[string]context.CancelFunc // calls being answered, by id
	waiting map[string]chan struct{}      // requests to the host, by id; closed when the answer arrives
	listens map[string]json.RawMessage    // live subscription id by recorded id
	asked   int                           // last id of a request to the host
	offer   int                           // index in run.offers of the current descriptors
	opened  bool                          // events before the first call have been sent
	dead    *cassette.End                 // how the recorded run ended; nil until then
}

var _ jsonrpc.Transport = (*Player)(nil)

// item is a result of Read.
type item struct {
	m   jsonrpc.Message
	err error
}

// Death is returned by [Player.Read] where the recorded run ended by itself.
type Death struct{ cassette.End }

func (d *Death) Error() string { return "the recorded run ended: " + d.Message }

// Play returns a player of the next recorded run. legacy prefers a run with a legacy MCP version, if both kinds
// were recorded.
func (t *Tape) Play(legacy bool) (*Player, error) {
	if err := t.load(); err != nil {
		return nil, err
	}
	r, err := t.take(legacy)
	if err != nil {
		return nil, err
	}
	opened, _, err := file.OpenRegular(t.options.File, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	p := &Player{
		tape:     t,
		run:      r,
		file:     opened,
		protocol: t.Protocol(),
		out:      make(chan item, 64),
		closed:   make(chan struct{}),
		calls:    make(map[string]context.CancelFunc),
		waiting:  make(map[string]chan struct{}),
		listens:  make(map[string]json.RawMessage),
	}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p, nil
}

// Read implements [jsonrpc.Transport].
func (p *Player) Read() (jsonrpc.Message, error) {
	select {
	case i := <-p.out:
		return i.m, i.err
	case <-p.closed:
		return jsonrpc.Message{}, jsonrpc.ErrClosed
	}
}

// Close implements [jsonrpc.Transport]. It waits for calls that are being answered. It is idempotent.
func (p *Player) Close() error {
	p.close()
	<-p.work.Close()
	_ = p.file.Close() // opened for reading; a second Close returns an error
	return nil
}

// frame reads the frame of an event from the cassette.
func (p *Player) frame(e *event) (jsonrpc.Message, error) {
	r, err := cassette.At(p.file, e.at)
	if err == nil {
		var m jsonrpc.Message
		if m, err = jsonrpc.Decode(r.Payload); err == nil {
			return m, nil
		}
	}
	return jsonrpc.Message{}, fmt.Errorf("%s: %w", p.tape.options.File, err)
}

// Dead returns how the recorded run ended, or nil until that point is reached.
func (p *Player) Dead() *cassette.End {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Write implements [jsonrpc.Transport].
func (p *Player) Write(_ context.Context, m jsonrpc.Message) error {
	switch {
	case m.Method == "":
		p.mu.Lock()
		if answered := p.waiting[string(m.ID)]; answered != nil {
			delete(p.waiting, string(m.ID))
			close(answered)
		}
		p.mu.Unlock()
	case m.Method == protocol.MethodCancelled:
		p.mu.Lock()
		if cancel := p.calls[string(rawjson.Get(m.Params, "requestId"))]; cancel != nil {
			cancel()
		}
		p.mu.Unlock()
	case m.Method == protocol.MethodInitialized:
		p.work.Go(p.open)
	case m.ID != nil:
		m.ID, m.Params = bytes.Clone(m.ID), bytes.Clone(m.Params)
		if !p.serve(&m) {
			return jsonrpc.ErrClosed
		}
	}
	return nil
}

// serve answers a request on its own goroutine. It reports false after Close.
func (p *Player) serve(m *jsonrpc.Message) bool {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.calls[string(m.ID)] = cancel
	p.mu.Unlock()
	done := func() {
		p.mu.Lock()
		delete(p.calls, string(m.ID))
		p.mu.Unlock()
		cancel()
	}
	if p.work.Go(func() {
		defer done()
		if raw, err, own := p.answerOwn(m); own {
			p.reply(m.ID, raw, err)
			if p.lastOfHandshake(m.Method) {
				p.open()
			}
			return
		}
		p.replay(ctx, m)
	}) {
		return true
	}
	done()
	return false
}

// lastOfHandshake reports whether the request completes the handshake. Legacy MCP completes it with a
// notification instead.
func (p *Player) lastOfHandshake(method string) bool {
	if p.protocol == manifest.ProtocolMCP {
		return method == protocol.MethodToolsList && p.run.modern()
	}
	return method == protocol.MethodInitialize
}

// answerOwn answers requests that concern the connection, which are not replayed. own is false for others.
func (p *Player) answerOwn(m *jsonrpc.Message) (result json.RawMessage, err error, own bool) {
	first := p.run.offers[0]
	mcp := p.protocol == manifest.ProtocolMCP
	switch m.Method {
	case protocol.MethodInitialize:
		switch {
		case !mcp:
			return nativeHandshake(first), nil, true
		case p.run.modern():
			return nil, &jsonrpc.Error{
				Code:    jsonrpc.CodeMethodNotFound,
				Message: "the recorded server speaks modern versions of MCP alone",
			}, true
		}
		return initializeResult(first), nil, true
	case protocol.MethodDiscover:
		if !mcp || !p.run.modern() {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + m.Method}, true
		}
		return discoverResult(first), nil, true
	case protocol.MethodToolsList:
		p.mu.Lock()
		offer := p.run.offers[p.offer]
		p.mu.Unlock()
		return toolsResult(offer), nil, true
	case protocol.MethodPing, protocol.MethodSetLevel, protocol.MethodShutdown:
		return json.RawMessage("{}"), nil, true
	}
	return nil, nil, false
}

// nativeHandshake is the result of initialize for a native extension.
func nativeHandshake(o *cassette.Offer) json.RawMessage {
	result := strconv.AppendInt([]byte(`{"protocol_version":`), protocol.Version, 10)
	if o.ServerVersion != "" {
		result = rawjson.AppendText(append(result, `,"server_version":`...), o.ServerVersion)
	}
	result = rawjson.AppendList(append(result, `,"tools":`...), o.Tools)
	if len(o.Hooks) > 0 {
		hooks, _ := json.Marshal(o.Hooks) // strings always encode
		result = append(append(result, `,"hooks":`...), hooks...)
	}
	return append(result, '}')
}

// serverMembers are the members shared by the results of initialize and server/discover.
func serverMembers(o *cassette.Offer) map[string]json.RawMessage {
	members := map[string]json.RawMessage{"capabilities": json.RawMessage("{}")}
	if o.Capabilities != nil {
		members["capabilities"] = o.Capabilities
	}
	if o.Instructions != "" {
		members["instructions"] = rawjson.Quote(o.Instructions)
	}
	return members
}

func initializeResult(o *cassette.Offer) json.RawMessage {
	members := serverMembers(o)
	members["protocolVersion"] = rawjson.Quote(o.Version)
	if o.ServerInfo != nil {
		members["serverInfo"] = o.ServerInfo
	}
	return rawjson.Edit(json.RawMessage("{}"), members)
}

func discoverResult(o *cassette.Offer) json.RawMessage {
	members := serverMembers(o)
	members["supportedVersions"] = rawjson.AppendList(nil, []json.RawMessage{rawjson.Quote(o.Version)})
	if o.ServerInfo != nil {
		members["_meta"] = rawjson.Set(json.RawMessage("{}"), protocol.MetaServerInfo, o.ServerInfo)
	}
	return rawjson.Edit(json.RawMessage("{}"), members)
}

func toolsResult(o *cassette.Offer) json.RawMessage {
	return append(rawjson.AppendList([]byte(`{"tools":`), o.Tools), '}')
}

// open replays the events between the handshake and the first call.
func (p *Player) open() {
	p.mu.Lock()
	first := !p.opened
	p.opened = true
	p.mu.Unlock()
	if first {
		p.play(context.Background(), p.run.opening, &live{})
	}
}

// live is the current request, which a recorded call answers.
type live struct {
	id    json.RawMessage // nil for events outside of a call
	token json.RawMessage // progress token; nil without one
}

// replay answers a request from the recorded calls.
func (p *Player) replay(ctx context.Context, m *jsonrpc.Message) {
	t := p.tape
	t.mu.Lock()
	c, err := t.index.find(p.protocol == manifest.ProtocolMCP && p.run.modern(), m.Method, m.Params, t.options.Nearest)
	t.mu.Unlock()
	if err != nil {
		if standing(m.Method) {
			p.wait(ctx)
			return
		}
		if !optional(m.Method) {
			p.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()})
			return
		}
		p.reply(m.ID, json.RawMessage("{}"), nil)
		return
	}
	l := &live{id: m.ID, token: rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProgressToken)}
	if standing(m.Method) {
		p.mu.Lock()
		p.listens[c.stands] = m.ID
		p.mu.Unlock()
	}
	if !p.play(ctx, c.events, l) {
		p.giveUp(c, l)
		return
	}
	if n := len(c.events); n > 0 && c.events[n-1].kind != message && c.events[n-1].kind != reply {
		p.play(context.Background(), c.after, &live{})
		return
	}
	if c.canceled || c.stands != "" { // never answered in the recording
		p.wait(ctx)
		return
	}
	p.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the recording has no answer to this call"})
}

// giveUp ends a call that the host canceled. A native extension must still answer it, an MCP server need not.
func (p *Player) giveUp(c *call, l *live) {
	if p.protocol == manifest.ProtocolMCP || p.over() {
		return
	}
	if n := len(c.events); n > 0 && c.events[n-1].kind == answer {
		if m, err := p.frame(&c.events[n-1]); err == nil {
			p.send(m, l)
			return
		}
	}
	p.reply(l.id, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the call was canceled"})
}

// standing reports whether a request stays open without an answer (subscriptions/listen).
func standing(method string) bool { return method == protocol.MethodListen }

// optional reports whether the host may send the request although it was not recorded; the answer is then empty.
func optional(method string) bool {
	return method == protocol.MethodResourcesSubscribe || method == protocol.MethodResourcesUnsubscribe
}

func (p *Player) over() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// wait blocks until ctx ends or the player is closed.
func (p *Player) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.closed:
	}
}

// play replays events, then waits for answers to the extension's requests. It reports false if ctx ended or the player
// was closed first.
func (p *Player) play(ctx context.Context, events []event, l *live) bool {
	answers := make(map[string]chan struct{}) // to requests of the extension, by recorded id
	for i := range events {
		e := &events[i]
		if !p.sleep(ctx, p.tape.pause(e)) {
			return false
		}
		if e.kind == death {
			p.die(e.end)
			return true
		}
		m, err := p.frame(e)
		switch {
		case err != nil:
			p.put(item{err: err})
			return false
		case e.kind == reply:
			if !p.await(ctx, answers, string(m.ID)) {
				return false
			}
		case e.kind == message && m.ID != nil:
			answers[string(m.ID)] = p.ask(m, l)
		default:
			if p.send(m, l); e.kind == answer {
				return true
			}
		}
	}
	for id := range answers {
		if l.id != nil && !p.await(ctx, answers, id) {
			return false
		}
	}
	return true
}

// sleep waits for a pause between events. It reports false if ctx ended or the player was closed.
func (p *Player) sleep(ctx context.Context, pause time.Duration) bool {
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-p.closed:
		}
	}
	return ctx.Err() == nil && !p.over()
}

// await waits for the answer to a request with the recorded id, if there is one, and removes it from answers. It
// reports false if ctx ended or the player was closed first.
func (p *Player) await(ctx context.Context, answers map[string]chan struct{}, id string) bool {
	if answers[id] == nil {
		return true
	}
	select {
	case <-answers[id]:
		delete(answers, id)
		return true
	case <-ctx.Done():
	case <-p.closed:
	}
	return false
}

// ask sends a request of the extension under a fresh id, and returns a channel that is closed when the answer
// arrives.
func (p *Player) ask(m jsonrpc.Message, l *live) chan struct{} {
	answered := make(chan struct{})
	p.mu.Lock()
	p.asked++
	m.ID = strconv.AppendInt(nil, int64(p.asked), 10)
	p.waiting[string(m.ID)] = answered
	p.mu.Unlock()
	p.send(m, l)
	return answered
}

// send sends a recorded message with the id and progress token of the live request.
func (p *Player) send(m jsonrpc.Message, l *live) {
	m.Of = l.id
	switch {
	case m.Method == "":
		m.ID = l.id
	case m.Method == protocol.MethodToolsListChanged:
		p.mu.Lock()
		p.offer = min(p.offer+1, len(p.run.offers)-1)
		p.mu.Unlock()
	}
	if m.Method != "" {
		token := progressToken(&m)
		if token != nil && l.token == nil && m.Method == protocol.MethodProgress {
			return // the live request asked for no progress
		}
		m.Params = p.withIDs(m.Params, m.Method, token, l)
	}
	p.deliver(m)
}

// withIDs replaces the recorded progress token and subscription id with the live ones.
func (p *Player) withIDs(params json.RawMessage, method string, token json.RawMessage, l *live) json.RawMessage {
	if token != nil && method == protocol.MethodProgress {
		return rawjson.Set(params, protocol.MetaProgressToken, l.token)
	}
	meta := rawjson.Get(params, "_meta")
	if meta == nil {
		return params
	}
	edits := make(map[string]json.RawMessage)
	if token != nil {
		edits[protocol.MetaProgressToken] = l.token // nil deletes it
	}
	if recorded := rawjson.Get(meta, protocol.MetaSubscriptionID); recorded != nil {
		p.mu.Lock()
		if id := p.listens[string(recorded)]; id != nil {
			edits[protocol.MetaSubscriptionID] = id
		}
		p.mu.Unlock()
	}
	if len(edits) == 0 {
		return params
	}
	return rawjson.Set(params, "_meta", rawjson.Edit(meta, edits))
}

func (p *Player) reply(id, result json.RawMessage, err error) {
	m := jsonrpc.Message{ID: id, Result: result}
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
		m.Error, _ = json.Marshal(refused) // always encodes
	} else if err != nil {
		m.Error = json.RawMessage(fmt.Sprintf(`{"code":%d,"message":%s}`, jsonrpc.CodeInternal,
			rawjson.Quote(err.Error())))
	}
	p.deliver(m)
}

func (p *Player) deliver(m jsonrpc.Message) {
	m.Bare = false
	if m.Invalid == nil {
		m.Raw, _ = jsonrpc.Append(nil, &m) // cannot fail: its parts are valid JSON
	}
	p.put(item{m: m})
}

func (p *Player) put(i item) {
	select {
	case p.out <- i:
	case <-p.closed:
	}
}

// die ends the connection like the recorded run.
func (p *Player) die(e *cassette.End) {
	p.mu.Lock()
	first := p.dead == nil
	if first {
		p.dead = e
	}
	p.mu.Unlock()
	if first {
		p.put(item{err: &Death{*e}})
	}
}
