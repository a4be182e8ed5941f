package runtime

import (
	"encoding/json"
	"strconv"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// observers returns the observers of this connection.
func (c *child) observers() observers {
	return observers{tap: c.spec.Tap, record: c.spec.Record, pid: c.endpoint.PID()}
}

// recorded converts h to its form in a cassette.
func (h *Handshake) recorded() *cassette.Offer {
	o := &cassette.Offer{
		Protocol:      h.Protocol,
		Version:       h.ProtocolVersion,
		ServerVersion: h.ServerVersion,
		ServerInfo:    h.ServerInfo,
		Capabilities:  h.Capabilities,
		Instructions:  h.Instructions,
		Hooks:         h.Hooks,
		Tools:         make([]json.RawMessage, len(h.Tools)),
	}
	for i, t := range h.Tools {
		o.Tools[i] = t.Raw
	}
	return o
}

// recordHandshake records the handshake h.
func (c *child) recordHandshake(h *Handshake) {
	c.spec.Record.Offer(func() *cassette.Offer {
		o := h.recorded()
		if d, ok := c.dialect.(*lite); ok {
			o.ToolsByMethod = make(map[string]string, len(d.methods))
			for tool, method := range d.methods {
				o.ToolsByMethod[method] = tool
			}
		}
		return o
	})
}

// recordEnd records why the run ended.
func (c *child) recordEnd(stopped bool) {
	if stopped {
		c.spec.Record.End(cassette.End{})
		return
	}
	c.spec.Record.End(cassette.End{Kind: c.cause.Kind, Message: c.cause.Message, Evidence: c.cause.Evidence})
}

// recordCall records a call as the frame that an extension with a connection would get.
func (e *ExecRuntime) recordCall(id uint64, r *Request) {
	if e.spec.Record.On() {
		e.recordFrame(true, jsonrpc.Message{ID: strconv.AppendUint(nil, id, 10), Method: r.Method, Params: r.Params})
	}
}

// recordAnswer records the outcome of a call as a frame.
func (e *ExecRuntime) recordAnswer(id uint64, raw json.RawMessage, fault *protocol.Error) {
	if !e.spec.Record.On() {
		return
	}
	m := jsonrpc.Message{ID: strconv.AppendUint(nil, id, 10), Result: raw}
	if fault != nil {
		m.Error = mustJSON(fault.Wire())
	}
	e.recordFrame(false, m)
}

func (e *ExecRuntime) recordFrame(sent bool, m jsonrpc.Message) {
	if frame, err := jsonrpc.Append(nil, &m); err == nil {
		e.spec.Record.Frame(sent, nil, frame)
	}
}
