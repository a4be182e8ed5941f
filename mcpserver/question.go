package mcpserver

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// ask puts a question to the client by way of write and waits for the answer.
func (c *conversation) ask(ctx context.Context, method string, params json.RawMessage, write writer) (json.RawMessage, error) {
	if session := c.current(); session != nil {
		if err := undeclared(session.Capabilities, method, params); err != nil {
			return nil, err
		}
	}
	id, answer := c.question()
	defer c.forget(id)
	err := write(ctx, &jsonrpc.Message{ID: id, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		return result(m)
	case <-c.attached.Done():
		return nil, errEnded
	case <-ctx.Done():
		c.takeBack(ctx, id, write)
		return nil, ctx.Err()
	}
}

// takeBack tells the client that its answer is no longer wanted.
func (c *conversation) takeBack(ctx context.Context, id json.RawMessage, write writer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	params := append(append([]byte(`{"requestId":`), id...), '}')
	_ = write(ctx, &jsonrpc.Message{Method: protocol.MethodCancelled, Params: params}) // a courtesy
}

func result(m *jsonrpc.Message) (json.RawMessage, error) {
	if m.Invalid != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "the client's answer: %w", m.Invalid)
	}
	if m.Error == nil {
		return m.Result, nil
	}
	var e protocol.WireError
	if err := json.Unmarshal(m.Error, &e); err != nil {
		return nil, protocol.Errorf(protocol.InvalidResponse, "the client's error is malformed: %w", err)
	}
	return nil, &protocol.Error{Kind: protocol.ExtensionError, Code: e.Code, Message: e.Message, Data: e.Data}
}

func (c *conversation) question() (json.RawMessage, <-chan *jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	id := strconv.AppendUint(nil, c.lastID, 10)
	answer := make(chan *jsonrpc.Message, 1)
	c.asked[string(id)] = answer
	return id, answer
}

func (c *conversation) forget(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, string(id))
}

// answered hands a response of the client to the one who asked, if still there.
func (c *conversation) answered(m *jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := c.asked[string(m.ID)]; answer != nil {
		delete(c.asked, string(m.ID))
		answer <- m // has room for the one answer
	}
}
