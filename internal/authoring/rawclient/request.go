package rawclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// NewID returns an unused id.
func (c *Client) NewID() string {
	c.lastID++
	return fmt.Sprint(c.lastID)
}

// Request encodes a request as a line.
func (c *Client) Request(id, method, params string) string {
	if c.meta != "" {
		meta := rawjson.Edit(rawjson.Get(json.RawMessage(params), "_meta"),
			maps.Collect(rawjson.Members(json.RawMessage(c.meta))))
		params = string(rawjson.Set(json.RawMessage(params), "_meta", meta))
	}
	name := rawjson.AppendText(nil, method)
	if c.o.Protocol == manifest.ProtocolLite {
		return fmt.Sprintf(`{"id":%s,"method":%s,"params":%s}`, id, name, params)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, name, params)
}

// CallRequest encodes a call of a tool, by its own name, as a line. meta is the _meta of
// its params; lite has none.
func (c *Client) CallRequest(id, tool string, arguments json.RawMessage, meta string) string {
	if c.o.Protocol == manifest.ProtocolLite {
		method := tool
		for _, t := range c.o.Spec.Manifest.Tools {
			if t.Name == tool && t.Method != "" {
				method = t.Method
			}
		}
		return c.Request(id, method, string(arguments))
	}
	params := json.RawMessage(fmt.Sprintf(`{"name":%s,"arguments":%s}`, rawjson.AppendText(nil, tool), arguments))
	if meta != "" {
		params = rawjson.Set(params, "_meta", json.RawMessage(meta))
	}
	return c.Request(id, protocol.MethodToolsCall, string(params))
}

// Ask sends a request and waits for its response.
func (c *Client) Ask(ctx context.Context, method, params string) (jsonrpc.Message, error) {
	id := c.NewID()
	answer := c.Expect(id)
	if err := c.Write(c.Request(id, method, params)); err != nil {
		return jsonrpc.Message{}, err
	}
	return c.Await(ctx, answer, method)
}

// Await waits for a response of any kind. Errors name the request by what.
func (c *Client) Await(ctx context.Context, answer <-chan jsonrpc.Message, what string) (jsonrpc.Message, error) {
	return c.await(ctx, Timeout, answer, what)
}

func (c *Client) await(ctx context.Context, limit time.Duration, answer <-chan jsonrpc.Message, what string,
) (jsonrpc.Message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var m jsonrpc.Message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return m, ctx.Err()
	case <-timer.C:
		return m, fmt.Errorf("%s is not answered within %v", what, limit)
	case <-c.ended:
		select {
		case m = <-answer: // written just before the end
		default:
			return m, fmt.Errorf("%s is not answered: %w", what, c.ExitError(nil))
		}
	}
	if m.Invalid != nil {
		return m, fmt.Errorf("the answer to %s cannot be used: %w: %s", what, m.Invalid, quote(m.Raw))
	}
	return m, nil
}

// Error returns the error in a response, nil if there is none.
func Error(m jsonrpc.Message) *jsonrpc.Error {
	if m.Error == nil {
		return nil
	}
	e := new(jsonrpc.Error)
	if json.Unmarshal(m.Error, e) != nil {
		e.Message = string(m.Error)
	}
	return e
}
