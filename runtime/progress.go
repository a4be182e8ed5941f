package runtime

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// callerToken returns the progress token in the caller's params; nil if there is none.
func callerToken(r *Request) json.RawMessage {
	if r.Plain || !mayHave(r.Params, protocol.MetaProgressToken) {
		return nil
	}
	return rawjson.Get(rawjson.Get(r.Params, "_meta"), protocol.MetaProgressToken)
}

// tokenSource makes unique progress tokens. A caller's own token is unique only within its session, and a child serves
// many sessions.
type tokenSource struct {
	prefix string
	last   atomic.Uint64
}

func (m *tokenSource) init() {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	m.prefix = `"x` + hex.EncodeToString(b[:]) + "-"
}

// next returns a new token as JSON.
func (m *tokenSource) next() json.RawMessage {
	b := append(make([]byte, 0, 32), m.prefix...)
	return append(strconv.AppendUint(b, m.last.Add(1), 10), '"')
}

// tokenOf returns the progress token in a message of the child, which identifies a call.
func tokenOf(m *jsonrpc.Message) string {
	if !bytes.Contains(m.Params, []byte(protocol.MetaProgressToken)) {
		return ""
	}
	if m.Method == protocol.MethodProgress {
		return string(rawjson.Get(m.Params, protocol.MetaProgressToken))
	}
	return string(rawjson.Get(rawjson.Get(m.Params, "_meta"), protocol.MetaProgressToken))
}

// loose reports whether a message without progress token may belong to a call: requests except ping, and log messages.
// Other notifications are about the server itself.
func loose(m *jsonrpc.Message) bool {
	if m.ID != nil {
		return m.Method != protocol.MethodPing
	}
	return m.Method == protocol.MethodMessage
}

// cancels returns the id of the request that a notification of the child cancels; nil for other messages.
func cancels(m *jsonrpc.Message) json.RawMessage {
	if m.Method != protocol.MethodCancelled {
		return nil
	}
	return rawjson.Get(m.Params, "requestId")
}

// relay passes the child's messages about a call to the caller.
type relay struct {
	client      protocol.Peer   // nil: drop notifications, refuse requests
	callerToken json.RawMessage // the caller's progress token; nil if there is none
	log         *slog.Logger
}

func (r *relay) message(ctx context.Context, m *jsonrpc.Message) (raw json.RawMessage, err error) {
	defer endBroken(r.log, m, &err)
	params := r.restore(m)
	switch {
	case m.ID == nil && r.client == nil:
		return nil, nil
	case m.ID == nil:
		return nil, r.client.Notify(ctx, m.Method, params)
	case r.client == nil:
		return nil, unknownMethod(m.Method)
	}
	raw, err = r.client.Call(ctx, m.Method, params)
	if err != nil && context.Cause(ctx) == jsonrpc.ErrCallEnded {
		r.log.Info("a call ended before the client answered a request of the extension", "question",
			cutLine([]byte(m.Method)))
	}
	return raw, wireError(err)
}

// restore puts the caller's token back into the params of m.
func (r *relay) restore(m *jsonrpc.Message) json.RawMessage {
	if r.callerToken == nil || tokenOf(m) == "" {
		return m.Params
	}
	if m.Method == protocol.MethodProgress {
		return rawjson.Set(m.Params, protocol.MetaProgressToken, r.callerToken)
	}
	return withToken(m.Params, r.callerToken)
}
