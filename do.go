package exthost

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/clients"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/operations"
	"github.com/exthost/exthost/protocol"
)

// stages are the path of every call, from the caller to the instance. The stages take the
// result back in the opposite order.
func (h *Host) stages() []dispatch.Stage {
	return []dispatch.Stage{
		dispatch.Govern,                     // policies; behind their response, the hooks after a call
		dispatch.Answer(h.nodes, h.gateway), // the host's own tools, and lists of all extensions
		// what is withheld, and tools that policies hide from the caller, in lists
		dispatch.Visible(h.life.rebuild.Add),
		dispatch.Hooks,                 // before a tool call
		dispatch.Validate,              // arguments, against the tool's schema
		h.logins.Ask,                   // the caller to sign in, where that is why the call failed
		dispatch.Replay,                // once more after a crash, where that is safe
		dispatch.Admit,                 // an instance: bound of calls, breaker, start on demand
		h.gateway.Callers,              // the way back to the caller while the call is in flight
		h.gateway.InputRounds,          // input requests of a modern server for a legacy caller
		h.gateway.LogLevels.Lowest,     // the lowest level that the sessions of an instance want
		h.gateway.Tasks.Owned,          // tasks, for their callers alone
		h.gateway.Subscriptions.Shared, // resources that several sessions follow
		dispatch.Inject,                // faults, for tests of agents
	}
}

// Do carries one call by the path of all calls: governance, hooks, validation, admission,
// the extension, and back. Every front and every other method of Host that reaches an
// extension ends here. The result is the bytes that the extension sent, or those of a list that
// the host makes once for all callers: it must not be modified. The error is always a
// *protocol.Error.
func (h *Host) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if h.opts.Mode.Inspect {
		return nil, errInspect()
	}
	return h.dispatcher.Do(ctx, c)
}

// Call calls a tool by its registered name. args is any value that encodes to a JSON
// object; a json.RawMessage is sent as it is, nil means {}. A tool that ran and reports a
// failure is a result with IsError. The error is a *protocol.Error for everything that kept
// the tool from answering.
func (h *Host) Call(ctx context.Context, tool string, args any) (protocol.ToolResult, error) {
	if h.opts.Mode.Inspect {
		return nil, errInspect()
	}
	result, err := h.dispatcher.CallTool(ctx, tool, args)
	return protocol.ToolResult(result), err
}

func errInspect() error {
	return protocol.Errorf(protocol.NotReady, "the host was opened with Inspect, and makes no calls")
}

// RunHooks runs the hooks of e.Point and returns their combined outcome. It is for the
// points that only an agent loop knows: its sessions, its messages, its model's requests
// and answers, and the tools that it is about to offer. e.Payload is an object, nil for an
// empty one, whose members the hooks see and may change; in that of tools_select the member
// tools lists the names of the tools, from which hooks can only remove. The error is that
// of [hooks.Set.Run], rejected when a hook denies, or invalid_arguments.
func (h *Host) RunHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	s := h.snapshots.Enter()
	defer s.Leave()
	return runHooks(ctx, s, &e, (*hooks.Set).Run)
}

// Attach registers s for notifications, such as changed tool lists, until ctx ends. It does
// not block. A host that is closed takes no more sessions: the error is shutting_down.
func (h *Host) Attach(ctx context.Context, s *protocol.Session) error {
	return h.gateway.Attach(ctx, s)
}

// Describe returns what is offered to s: by its extension, whose instance for s is started
// if need be, or by all extensions that have started. A destination describes itself.
func (h *Host) Describe(ctx context.Context, s *protocol.Session) (protocol.Description, error) {
	return h.gateway.Describe(ctx, s)
}

// Mirrored returns the input schema of the tool that the client of s knows by that name, if
// the schema has x-mcp-header, by which headers repeat arguments. Else it returns nil.
func (h *Host) Mirrored(s *protocol.Session, tool string) json.RawMessage {
	return h.gateway.Mirrored(s, tool)
}

// Serves reports whether there is an extension or destination of that id that may run here.
func (h *Host) Serves(id string) bool { return h.snapshots.Load().Target(id) != nil }

// What fronts get of a host.
type (
	Destination = bridge.Info       // an MCP server that fronts bridge to HTTP
	Bridge      = bridge.Directory  // what fronts need to serve destinations over HTTP
	Clients     = clients.Directory // the named clients in force
)

// What operators do at a host and at the other nodes of its cluster.
type (
	// where an approval request of another node is NODE/ID, and an extension NODE.ID
	Nodes       = operations.Nodes
	Approvals   = operations.Approvals   // the approval requests of all nodes
	CallRecords = operations.CallRecords // what the audit logs of all nodes have of a call
)

// NodesOf returns what operators do at h and at other nodes.
func NodesOf(h *Host) *Nodes { return h.nodes }

// Clients returns what fronts and operators need of named clients.
func (h *Host) Clients() *Clients { return h.clients }

// Bridge returns what fronts need to serve destinations.
func (h *Host) Bridge() *Bridge { return h.destinations }
