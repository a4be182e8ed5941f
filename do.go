package exthost

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// stages is the path of every call, from the caller to the instance. Results pass the stages in reverse order.
func (h *Host) stages() []dispatch.Stage {
	return []dispatch.Stage{
		dispatch.Govern,                     // policies; after their response phase, the after-call hooks
		dispatch.Answer(h.nodes, h.gateway), // calls without a target: the host's own tools, lists of all extensions
		dispatch.ServeSkills,                // the skills in the folder of an extension
		// removes from lists the items that are withheld or hidden from the caller
		dispatch.FilterLists(h.life.rebuild.Add),
		dispatch.RunHooks,                          // before-call hooks, for tool calls
		dispatch.Validate,                          // checks arguments against the tool's schema
		h.gateway.SignIns.AskSignIn,                // asks the caller to sign in if the call failed for lack of a login
		dispatch.Replay,                            // sends the call once more after a crash, where that is safe
		dispatch.Admit,                             // reserves an instance: limit of calls, breaker, start on demand
		h.gateway.RouteToCaller,                    // lets the instance reach the caller while the call is in flight
		h.gateway.RelayInputRequests,               // sends input requests of a modern server to a legacy caller
		h.gateway.LogLevels.LowerLogLevel,          // sets the lowest log level that the instance's sessions want
		h.gateway.Tasks.EnforceTaskOwner,           // lets only the caller that started a task use it
		h.gateway.Subscriptions.ShareSubscriptions, // lets several sessions follow one resource
		dispatch.InjectFaults,                      // for tests of agents
	}
}

// Do carries one call through governance, hooks, validation and admission to the extension, and back. Every front
// and every other method of Host that reaches an extension ends here. The result is the extension's bytes, or a
// list that all callers share: it must not be modified. The error is always a *protocol.Error.
func (h *Host) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if h.opts.Mode.Inspect {
		return nil, errInspect()
	}
	return h.dispatcher.Do(ctx, c)
}

// Call calls a tool by its registered name. args is any value that encodes to a JSON object; a json.RawMessage is
// sent as it is, nil means {}. A tool that ran and reports a failure is a result with IsError. The error is a
// *protocol.Error. When ctx ends, the extension is told to cancel and Call returns at once; the error's Outcome says
// whether the tool may have run.
func (h *Host) Call(ctx context.Context, tool string, args any) (protocol.ToolResult, error) {
	return h.CallWith(ctx, tool, args, CallOptions{})
}

// CallOptions are what [Host.CallWith] adds to a call. The zero value adds nothing.
type CallOptions struct {
	// Session is whose call it is: policies see its caller, and its toolset says which tools there are and under which
	// names. Default: an anonymous caller, who has all tools under their registered names.
	Session *protocol.Session
	// Node is the node of the cluster that is to take the call. Default: any that has the tool.
	Node string
	// Progress receives what the tool reports while it works, in order and one report at a time, and what the call
	// waits for while the extension starts. It is not called after the call has returned. The call waits for it, so it
	// must return soon. Default: the tool is not asked for progress.
	Progress func(protocol.Progress)
}

// CallWith is [Host.Call] with options.
func (h *Host) CallWith(ctx context.Context, tool string, args any, o CallOptions) (protocol.ToolResult, error) {
	if h.opts.Mode.Inspect {
		return nil, errInspect()
	}
	var c *protocol.Call
	if o.Session != nil || o.Node != "" || o.Progress != nil {
		c = &protocol.Call{Method: protocol.MethodToolsCall, Session: o.Session, Node: o.Node}
	}
	if o.Session != nil {
		c.Extension = o.Session.Extension
	}
	if o.Progress != nil {
		c.Params, c.Client = askForProgress, reportee(o.Progress)
	}
	result, err := h.dispatcher.CallTool(ctx, c, tool, args)
	return protocol.ToolResult(result), err
}

// askForProgress are the params of a call that wants progress, without tool and arguments.
var askForProgress = json.RawMessage(`{"_meta":{"` + protocol.MetaProgressToken + `":1}}`)

// reportee is a caller that wants progress and nothing else.
type reportee func(protocol.Progress)

// Call implements [protocol.Peer].
func (reportee) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "%s: the caller answers no requests", method)
}

// Notify implements [protocol.Peer].
func (r reportee) Notify(_ context.Context, method string, params json.RawMessage) error {
	if method != protocol.MethodProgress {
		return nil
	}
	var p protocol.Progress
	if err := json.Unmarshal(params, &p); err != nil {
		return err
	}
	r(p)
	return nil
}

func errInspect() error {
	return protocol.Errorf(protocol.NotReady, "the host was opened with Inspect, and makes no calls")
}

// RunHooks runs the hooks of e.Point and returns their combined outcome. It is for points that only an agent loop
// knows: sessions, messages, model requests and answers, and the selection of tools. e.Payload is an object that
// hooks may change; nil means {}. For tools_select, the member tools of e.Payload lists tool names, and hooks can only
// remove names. The error is that of [hooks.Set.Run], such as rejected when a hook denies, or invalid_arguments.
func (h *Host) RunHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	s := h.snapshots.Enter()
	defer s.Leave()
	return runHooks(ctx, s, &e, (*hooks.Set).Run)
}

// Attach registers s for notifications, such as changed tool lists, until ctx ends. It does not block. The error
// is shutting_down once the host is closed.
func (h *Host) Attach(ctx context.Context, s *protocol.Session) error {
	return h.gateway.Attach(ctx, s)
}

// Describe describes what the host serves to s. If s belongs to one extension, Describe starts an instance of it if
// none runs; a destination describes itself. Otherwise it describes all extensions that have started.
func (h *Host) Describe(ctx context.Context, s *protocol.Session) (protocol.Description, error) {
	return h.gateway.Describe(ctx, s)
}

// Mirrored returns the input schema of the tool that s knows by this name, if the schema has x-mcp-header: clients
// repeat arguments with that keyword in headers. For other schemas it returns nil.
func (h *Host) Mirrored(s *protocol.Session, tool string) json.RawMessage {
	return h.gateway.Mirrored(s, tool)
}

// Serves reports whether an extension or destination of that id exists and may run here.
func (h *Host) Serves(id string) bool { return h.snapshots.Load().Target(id) != nil }

// RejectionErrors reports whether a tools/call that a policy or hook has rejected is answered with a JSON-RPC error:
// governance.rejections of the configuration.
func (h *Host) RejectionErrors() bool {
	return h.snapshots.Load().Config.Governance.Rejections == config.RejectionsError
}

// Bridge returns the destinations, for fronts that serve them over HTTP.
func (h *Host) Bridge() Bridge { return h.destinations }

// Bridge has what a front needs to serve the destinations of a host over HTTP. It is safe for concurrent use.
type Bridge interface {
	// Destinations yields the destinations by name as the configuration states them, at once and after every reload,
	// until ctx ends or the host is closed. Each map is a new one.
	Destinations(ctx context.Context) iter.Seq[map[string]config.Destination]
	// EnvHeaders maps request headers of a client to variables of its instance; nil if there are none.
	EnvHeaders(destination string) map[string]string
	// Listens sets the additional address, besides /{name}, that the status shows for a destination; "" when its
	// front has stopped serving it.
	Listens(destination, address string)
	// Refuses returns why the destination s.Extension would refuse a request of s now: it has failed too often or
	// cannot run. The error is a *protocol.Error with RetryAfter. It is nil if the request would be served, and for
	// an unknown destination.
	Refuses(s *protocol.Session) error
}

// Clients returns the named clients, for fronts that authenticate their callers.
func (h *Host) Clients() Clients { return h.clients }

// Clients are the named clients in force. It is safe for concurrent use.
type Clients interface {
	// Names returns the names of all clients, sorted.
	Names() []string
	// Stated returns the clients in force as the configuration states them. The map must not be changed.
	Stated() map[string]config.Client
	// ByToken returns the client of a token. until ends with the token or the client. The time that it takes depends
	// only on the number of tokens, not on which token matches nor on how much of it does.
	ByToken(token string) (name string, until context.Context, ok bool)
	// ByName looks up a client that was authenticated without a token. until ends with the client. A client with a
	// scope is not found: it has only what its token opens.
	ByName(name string) (until context.Context, ok bool)
	// Formerly returns the client whose ended old token this is, "" for any other token.
	Formerly(token string) (name string)
	// Subject reports whether the subject of an access token may use this name as a caller: no client has it. until
	// ends when a client gets the name, or when many other subjects have come since this one was last seen.
	Subject(name string) (until context.Context, ok bool)
	// Unnamed reports whether anonymous callers may be served: no client has existed since the host was opened.
	// Removing the last client does not admit them again. until ends with the first client.
	Unnamed() (until context.Context, ok bool)
	// Toolset returns the toolset of a client, "" for a client without one and for an unknown client.
	Toolset(name string) string
	// Scope returns the scope of a client, see [config.Client]; "" for a client without one and for an unknown client.
	Scope(name string) string
	// Reload applies the clients of the configuration that Options.Reread reads, and nothing else of it. Removed
	// clients and old tokens are refused at once, and their sessions end. So do the sessions of an access token's
	// subject if a client has got the subject's name. Reload does not wait for starts. After an error, which is also
	// logged, nothing has changed.
	Reload() error
	// Set replaces all clients, as Reload does.
	Set(stated map[string]config.Client)
}

// runHooks checks e and runs it in s with run, a method of hooks.Set.
func runHooks(ctx context.Context, s *snapshot.Snapshot, e *hooks.Event, run func(*hooks.Set, context.Context,
	*hooks.Event) (hooks.Outcome, error)) (hooks.Outcome, error) {
	if !slices.Contains(hooks.Points(), e.Point) {
		return hooks.Outcome{}, protocol.Errorf(protocol.InvalidArguments, "%q is not a hook point", e.Point)
	}
	if len(e.Payload) == 0 {
		e.Payload = []byte("{}")
	}
	if err := rawjson.Check(e.Payload); err != nil || e.Payload[rawjson.SkipSpace(e.Payload, 0)] != '{' {
		return hooks.Outcome{}, protocol.Errorf(protocol.InvalidArguments, "the payload of %s is not a JSON object",
			e.Point)
	}
	return run(s.Hooks, ctx, e)
}
