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
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Decide implements [governance.Policy]. Its error is a *protocol.Error: NotReady,
// ChildExited when the process or its connection ended, CallTimeout and Canceled
// as ctx did, InvalidResponse for a message that is too large, and ExtensionError
// for the plugin's own.
func (s *Service) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	l := s.live.Load()
	if l == nil {
		return governance.Decision{}, protocol.Errorf(protocol.NotReady, "its process is not running")
	}
	m := s.message(flow, x)
	ask, rpc := l.client.HandleRequest, "HandleRequest"
	if flow == governance.Response {
		ask, rpc = l.client.HandleResponse, "HandleResponse"
	}
	var header, trailer metadata.MD
	answer, err := ask(ctx, m, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		heard := len(header)+len(trailer) > 0 && l.conn.GetState() == connectivity.Ready
		return governance.Decision{}, unanswered(ctx, rpc, err, heard)
	}
	return decision(flow, x, m, answer), nil
}

// message is the exchange in the service's words.
func (s *Service) message(flow governance.Flow, x *governance.Exchange) *pluginv1.PluginHandleRequest {
	m := &pluginv1.PluginHandleRequest{
		Flow: string(flow), Method: x.Method, Caller: x.Caller, Server: x.Extension,
		ToolName: x.Tool, RoutingKey: x.Session, RequestJson: x.Request,
		Metadata: map[string]string{"request_id": x.ID, "direction": direction(x)},
	}
	switch {
	case argued(x.Method):
		m.RequestJson = rawjson.Get(x.Request, "arguments")
		if x.Method == protocol.MethodPromptsGet {
			m.PromptName, _ = rawjson.Text(rawjson.Get(x.Request, "name"))
		}
	case strings.HasPrefix(x.Method, resources):
		m.ResourceUri, _ = rawjson.Text(rawjson.Get(x.Request, "uri"))
	}
	if flow == governance.Response {
		m.ResponseJson = x.Response
		if x.Response == nil && x.Failure != nil {
			m.ResponseJson, _ = json.Marshal(x.Failure.Wire()) // its Data is valid, or Wire left it out
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

// argued reports whether the service sees a method's arguments in the place of
// its params.
func argued(method string) bool {
	return method == protocol.MethodToolsCall || method == protocol.MethodPromptsGet
}

func direction(x *governance.Exchange) string {
	if x.ToChild {
		return "to_extension"
	}
	return "to_caller"
}

// decision reads the answer to m. Whether what it changes may be changed, and so,
// is the pipeline's to say.
func decision(flow governance.Flow, x *governance.Exchange, m *pluginv1.PluginHandleRequest, a *pluginv1.PluginHandleResponse) governance.Decision {
	if !a.GetContinue() {
		return governance.Decision{Action: governance.Deny, Code: a.GetRejectCode(), Reason: strings.TrimSpace(a.GetRejectMessage())}
	}
	sent, changed := m.RequestJson, a.GetRequestJson()
	if flow == governance.Response {
		sent, changed = m.ResponseJson, a.GetResponseJson()
	}
	if len(changed) == 0 || bytes.Equal(changed, sent) {
		return governance.Decision{}
	}
	if line, err := rawjson.Object(changed); err == nil { // else it is of no use anywhere
		changed = line
		if flow == governance.Request && argued(x.Method) {
			changed = rawjson.Set(x.Request, "arguments", line)
		}
	}
	return governance.Decision{Action: governance.Modify, JSON: changed}
}

// unanswered is the error of a call without a decision. Heard says that err is
// the plugin's own; Unavailable and Canceled are else the end of the connection,
// which is ours to close when the process has ended.
func unanswered(ctx context.Context, rpc string, err error, heard bool) error {
	state := status.Convert(err)
	switch code := state.Code(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || code == codes.DeadlineExceeded: // its clock is told ours, and may be the first
		return protocol.Errorf(protocol.CallTimeout, "no answer in time: %w", context.DeadlineExceeded)
	case ctx.Err() != nil:
		return protocol.Errorf(protocol.Canceled, "given up: %w", ctx.Err())
	case !heard && (code == codes.Unavailable || code == codes.Canceled):
		return protocol.Errorf(protocol.ChildExited, "its process or its connection ended: %s", state.Message())
	case code == codes.ResourceExhausted && strings.Contains(state.Message(), "larger than max"):
		return protocol.Errorf(protocol.InvalidResponse, "a message was too large: %s; let its server accept %d (grpc.MaxRecvMsgSize, grpc.max_receive_message_length)",
			state.Message(), maxMessage)
	default:
		e := protocol.Errorf(protocol.ExtensionError, "%s failed: %s (%s)", rpc, state.Message(), code)
		e.Data, _ = json.Marshal(map[string]string{"grpc_code": fmt.Sprint(code)}) // strings always encode
		return e
	}
}
