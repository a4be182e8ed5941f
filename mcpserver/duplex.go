package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// duplex is a conversation over one channel each way, where answers go out by
// the same way as everything else: stdio, and HTTP with server-sent events.
type duplex struct {
	*conversation
	stateless bool                     // it serves requests of 2026-07-28 too
	running   context.Context          // what requests run under
	tell      func(m *jsonrpc.Message) // takes notifications for the backend, in order
}

// receive takes one message of the client. Requests run in goroutines of their
// own, which the conversation's wait waits for; initialize is answered before
// receive returns, as what follows depends on it. done is called when the message
// is no longer needed.
func (d *duplex) receive(m *jsonrpc.Message, done func()) {
	if ctx := d.accept(m); ctx != nil {
		go func() {
			defer done()
			d.run(ctx, m)
		}()
		return
	}
	done()
}

// accept takes one message. It returns the context of a request that is to be run.
func (d *duplex) accept(m *jsonrpc.Message) context.Context {
	err := mcphttp.Check(m)
	switch {
	case err != nil:
		d.respond(m.ID, nil, err)
	case m.Method == "":
		d.answered(m)
	case m.ID == nil:
		d.notified(m)
	case m.Method == protocol.MethodInitialize:
		result, err := d.initialize(d.attached, m.Params)
		d.respond(m.ID, result, err)
	default:
		ctx, err := d.begin(d.running, m.ID)
		if err == nil {
			return ctx
		}
		d.respond(m.ID, nil, err)
	}
	return nil
}

func (d *duplex) notified(m *jsonrpc.Message) {
	switch m.Method {
	case protocol.MethodCancelled:
		d.cancel(m.Params)
	case protocol.MethodInitialized:
		d.ready.Store(true)
	default:
		d.tell(m)
	}
}

func (d *duplex) run(ctx context.Context, m *jsonrpc.Message) {
	defer d.finish()
	result, err := d.serve(ctx, m)
	d.release(m.ID)
	if !errors.Is(context.Cause(ctx), errCancelled) { // who cancelled hears no more of it
		d.respond(m.ID, result, err)
	}
}

// serve runs a request of either era.
func (d *duplex) serve(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
	client := &requestClient{write: d.write, asks: d.conversation}
	meta := readMeta(m.Params)
	if meta.version == "" {
		session := d.opened()
		return d.server.serveLegacy(ctx, session, m, client)
	}
	if !d.stateless {
		return nil, unsupportedVersion(meta.version, legacy)
	}
	if err := meta.check(); err != nil {
		return nil, err
	}
	if m.Method == protocol.MethodListen {
		return d.listen(ctx, meta, m)
	}
	client.asks, client.quiet = nil, !meta.logs
	return d.server.serveStateless(ctx, meta.session(visit{caller: d.caller, env: d.env}, d.front), m, client)
}

// listen keeps a subscription open until the client cancels it or nothing more
// can come.
func (d *duplex) listen(ctx context.Context, meta requestMeta, m *jsonrpc.Message) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.server.subscribe(ctx, meta.session(visit{caller: d.caller, env: d.env}, d.front), m, d.write); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-d.attached.Done():
	case <-d.server.closing.Done():
	}
	return endOfSubscription(m.ID), nil
}

// opened returns the session, nil before initialize. A client that goes on to
// requests has seen the answer to initialize.
func (d *duplex) opened() *protocol.Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session != nil {
		d.ready.Store(true)
	}
	return d.session
}

// respond sends a response. A client that cannot be reached is the front's to notice.
func (d *duplex) respond(id, result json.RawMessage, err error) {
	_ = d.write(d.running, respond(id, result, err))
}
