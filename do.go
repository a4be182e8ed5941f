package exthost

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Do takes one exchange through the host: governance, hooks, validation,
// admission, the extension, and back. Every front and every other method of Host
// that reaches an extension ends here. The result is the bytes the extension
// sent; an error is always a *protocol.Error.
func (h *Host) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if len(c.Params) > 0 {
		if err := rawjson.Check(c.Params); err != nil { // or they could end the frame they are put into
			return nil, protocol.Errorf(protocol.InvalidJSON, "the params of %s are not JSON: %w", c.Method, err)
		}
	}
	if c.Notify && !strings.HasPrefix(c.Method, "notifications/") {
		return nil, protocol.Errorf(protocol.ToolNotFound, "%q is a request, and was sent as a notification", c.Method)
	}
	if c.Method != protocol.MethodToolsCall {
		c, err := h.resolve(ctx, c)
		if err != nil {
			return nil, err
		}
		return h.exchange(ctx, c, nil)
	}
	t, err := readToolCall(c.Params)
	if err != nil {
		return nil, err
	}
	return h.exchange(ctx, c, t)
}

// Call calls a tool by its registered name. args is anything that encodes to a
// JSON object; a json.RawMessage goes out as it is, nil means {}. A tool that ran
// and reports failure is a result with IsError; err is a *protocol.Error for
// everything that kept it from answering.
func (h *Host) Call(ctx context.Context, tool string, args any) (protocol.ToolResult, error) {
	arguments, err := encodeArguments(args)
	if err != nil {
		return nil, err
	}
	t := toolCall{name: tool, arguments: arguments}
	t.normalize()
	result, err := h.exchange(ctx, &anonymous, &t)
	return protocol.ToolResult(result), err
}

// anonymous is what a Go caller asks for; the tool and its arguments are beside it.
var anonymous = protocol.Call{Method: protocol.MethodToolsCall}

// exchange is Do once the params of a tool call have been read, and are t.
func (h *Host) exchange(ctx context.Context, c *protocol.Call, t *toolCall) (json.RawMessage, error) {
	if h.opts.Inspect {
		return nil, protocol.Errorf(protocol.NotReady, "the host was opened with Inspect, and makes no calls")
	}
	r, err := h.route(ctx, c, t)
	if err != nil {
		h.tally.astray(err)
		return nil, err
	}
	defer r.gen.leave()
	began := h.feed.clock()
	err = r.gen.policy.Govern(ctx, &r.exchange, r.send, r.stages()...)
	h.account(r, began, err)
	if err != nil {
		return nil, r.blame(err)
	}
	response := r.exchange.Response
	r.recycle()
	return response, nil
}

func encodeArguments(args any) (json.RawMessage, error) {
	switch args := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(args) == 0 {
			return json.RawMessage("{}"), nil
		}
		if err := rawjson.Check(args); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "arguments are not JSON: %w", err)
		}
		return args, nil
	}
	arguments, err := json.Marshal(args)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "arguments do not encode to JSON: %w", err)
	}
	return arguments, nil
}

// blame makes err a *protocol.Error that names the extension and the tool.
func (r *routed) blame(err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) {
		kind := protocol.KindOf(err)
		if kind == "" {
			kind = protocol.ExtensionError
		}
		e = protocol.Errorf(kind, "%w", err)
	}
	named := *e // errors may be shared between calls that fail together
	if named.Extension == "" && r.target != nil {
		named.Extension = r.target.candidate.ID
	}
	if named.Tool == "" {
		named.Tool = r.exchange.Tool
	}
	return &named
}
