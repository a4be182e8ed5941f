package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
)

// expect announces a request of that id and returns where its answer comes.
func (w *wire) expect(id string) chan jsonrpc.Message {
	answer := make(chan jsonrpc.Message, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[key(json.RawMessage(id))] = answer
	return answer
}

// newID returns an id that has not been used.
func (w *wire) newID() string {
	w.lastID++
	return fmt.Sprint(w.lastID)
}

// request is the line of a request.
func (w *wire) request(id, method, params string) string {
	if w.meta != "" {
		meta := rawjson.Edit(rawjson.Get(json.RawMessage(params), "_meta"), members(w.meta))
		params = string(rawjson.Set(json.RawMessage(params), "_meta", meta))
	}
	if w.subject.speaks == manifest.ProtocolLite {
		return fmt.Sprintf(`{"id":%s,"method":%s,"params":%s}`, id, quoted(method), params)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, quoted(method), params)
}

func quoted(text string) string { return string(rawjson.AppendText(nil, text)) }

func members(object string) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for k, v := range rawjson.Members(json.RawMessage(object)) {
		all[k] = v
	}
	return all
}

// ask sends a request and waits for its answer.
func (w *wire) ask(ctx context.Context, method, params string) (jsonrpc.Message, error) {
	id := w.newID()
	answer := w.expect(id)
	if err := w.write(w.request(id, method, params)); err != nil {
		return jsonrpc.Message{}, err
	}
	return w.await(ctx, answer, method)
}

// await waits for an answer, and says what there was instead.
func (w *wire) await(ctx context.Context, answer chan jsonrpc.Message, what string) (jsonrpc.Message, error) {
	return w.awaitFor(ctx, patience, answer, what)
}

func (w *wire) awaitFor(ctx context.Context, limit time.Duration, answer chan jsonrpc.Message, what string) (jsonrpc.Message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var m jsonrpc.Message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return m, ctx.Err()
	case <-timer.C:
		return m, fmt.Errorf("%s is not answered within %v", what, limit)
	case <-w.ended:
		select {
		case m = <-answer: // its last words
		default:
			return m, fmt.Errorf("%s is not answered: %w", what, w.gone(nil))
		}
	}
	if m.Invalid != nil {
		return m, fmt.Errorf("the answer to %s cannot be used: %w: %s", what, m.Invalid, cut(string(m.Raw)))
	}
	return m, nil
}

// rpcError is the error of an answer; nil when it has none.
func rpcError(m jsonrpc.Message) *jsonrpc.Error {
	if m.Error == nil {
		return nil
	}
	e := new(jsonrpc.Error)
	if json.Unmarshal(m.Error, e) != nil {
		e.Message = string(m.Error)
	}
	return e
}
