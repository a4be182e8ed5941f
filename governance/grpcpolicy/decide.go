package grpcpolicy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Decide implements [governance.Policy]. Its error is a *protocol.Error: NotReady; ChildExited when
// the process or its connection ended; CallTimeout or Canceled when ctx ended; InvalidResponse for
// a message that is too large; or ExtensionError for an error of the plugin.
func (s *Service) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	l := s.live.Load()
	if l == nil {
		return governance.Decision{}, protocol.Errorf(protocol.NotReady, "its process is not running")
	}
	m := s.message(ctx, flow, x)
	ask, rpc := l.client.HandleRequest, "HandleRequest"
	if flow == governance.Response {
		ask, rpc = l.client.HandleResponse, "HandleResponse"
	}
	var header, trailer metadata.MD
	answer, err := ask(ctx, m, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		responded := len(header)+len(trailer) > 0 && l.conn.GetState() == connectivity.Ready
		return governance.Decision{}, callError(ctx, rpc, err, responded)
	}
	return decision(flow, x, m, answer), nil
}

// message encodes x as a message of the service.
func (s *Service) message(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) *pluginv1.PluginHandleRequest {
	m := &pluginv1.PluginHandleRequest{
		Flow:        string(flow),
		Method:      x.Method,
		Caller:      x.Caller,
		Server:      x.Extension,
		ToolName:    x.Tool,
		RoutingKey:  x.Session,
		RequestJson: x.Request,
		Metadata:    map[string]string{"request_id": x.ID, "direction": direction(x)},
	}
	if x.Node != "" {
		m.Metadata["node"] = x.Node
	}
	for name, value := range protocol.HeadersOf(ctx) {
		m.Metadata["header."+name] = value
	}
	switch {
	case hasArguments(x.Method):
		m.RequestJson = rawjson.Get(x.Request, "arguments")
		if x.Method == protocol.MethodPromptsGet {
			m.PromptName, _ = rawjson.Text(rawjson.Get(x.Request, "name"))
		}
	case strings.HasPrefix(x.Method, resources):
		m.ResourceUri, _ = rawjson.Text(rawjson.Get(x.Request, "uri"))
	}
	if flow == governance.Response {
		m.ResponseJson = x.Response
		if x.Failure != nil {
			m.Metadata["error_kind"] = string(x.Failure.Kind)
		}
		if x.Response == nil && x.Failure != nil {
			m.ResponseJson, _ = json.Marshal(x.Failure.Wire()) // Wire returns valid Data only
		}
	}
	if s.o.Spec.Category == governance.Audit {
		m.Metadata["decision"] = cmp.Or(string(x.Verdict.Action), "allow")
		m.Metadata["code"], m.Metadata["policy"] = x.Verdict.Code, x.Verdict.Policy
		m.Metadata["decision_id"] = x.ID
	}
	return m
}

// resources is the prefix of the methods whose params may name a URI.
const resources = "resources/"

// hasArguments reports whether the service receives the arguments of a method instead of
// its params.
func hasArguments(method string) bool {
	return method == protocol.MethodToolsCall || method == protocol.MethodPromptsGet
}

func direction(x *governance.Exchange) string {
	if x.ToChild {
		return "to_extension"
	}
	return "to_caller"
}

// decision converts the answer to m. The pipeline checks whether the policy may make the
// change.
func decision(flow governance.Flow, x *governance.Exchange, m *pluginv1.PluginHandleRequest,
	a *pluginv1.PluginHandleResponse) governance.Decision {
	if !a.GetContinue() {
		return governance.Decision{
			Action: governance.Deny,
			Code:   a.GetRejectCode(),
			Reason: strings.TrimSpace(a.GetRejectMessage()),
		}
	}
	sent, changed := m.RequestJson, a.GetRequestJson()
	if flow == governance.Response {
		sent, changed = m.ResponseJson, a.GetResponseJson()
	}
	if len(changed) == 0 || bytes.Equal(changed, sent) {
		return governance.Decision{}
	}
	if line, err := rawjson.Object(changed); err == nil { // else the pipeline rejects it
		changed = line
		if flow == governance.Request && hasArguments(x.Method) {
			changed = rawjson.Set(x.Request, "arguments", line)
		}
	}
	return governance.Decision{Action: governance.Modify, JSON: changed}
}

// callError returns the error of a call without an answer. responded means that err came from the
// plugin. If it did not, Unavailable and Canceled mean that the connection ended: the host closes
// the connection when the process has ended.
func callError(ctx context.Context, rpc string, err error, responded bool) error {
	state := status.Convert(err)
	switch code := state.Code(); {
	// the plugin knows the deadline too, and by its clock the deadline may pass earlier
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || code == codes.DeadlineExceeded:
		return protocol.Errorf(protocol.CallTimeout, "no answer in time: %w", context.DeadlineExceeded)
	case ctx.Err() != nil:
		return protocol.Errorf(protocol.Canceled, "given up: %w", ctx.Err())
	case !responded && (code == codes.Unavailable || code == codes.Canceled):
		return protocol.Errorf(protocol.ChildExited, "its process or its connection ended: %s", state.Message())
	case code == codes.ResourceExhausted && strings.Contains(state.Message(), "larger than max"):
		return protocol.Errorf(protocol.InvalidResponse,
			"a message was too large: %s; let its server accept %d (grpc.MaxRecvMsgSize, "+
				"grpc.max_receive_message_length)",
			state.Message(), maxMessage)
	default:
		e := protocol.Errorf(protocol.ExtensionError, "%s failed: %s (%s)", rpc, state.Message(), code)
		e.Data, _ = json.Marshal(map[string]string{"grpc_code": fmt.Sprint(code)}) // strings always encode
		return e
	}
}
