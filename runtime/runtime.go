package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/exthost/exthost/internal/observe/wiretap"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/recording/player"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Spec describes the extension that an instance runs, and how. It must not change after
// it was given to [New].
type Spec struct {
	ID       string             // the extension's id, named in logs and errors
	Dir      string             // the extension's directory, absolute
	Manifest *manifest.Manifest // required; its transport is stdio, exec, http, sse, nats or replay
	Options  manifest.Options   // the result of Manifest.Runtime.Resolve; zero durations are no limit

	Config json.RawMessage // config of a native extension; nil is {}
	// requests that the host can relay to the client: native or MCP client capabilities; nil is {}
	Capabilities json.RawMessage
	StateDir     string
	HostVersion  string
	Self         string               // the executable for command = "exthost"; "" searches PATH
	Env          []string             // the child's complete environment
	Containment  *process.Containment // contains the processes that the child starts; nil uses its process group only
	Logger       *slog.Logger         // already has the extension's id; nil discards
	Tap          *wiretap.Wire        // gets every frame; nil for none
	Record       *recorder.Wire       // gets every frame, the handshake and the end; nil for none

	// Replay answers for the extension; required for transport replay.
	Replay *player.Tape

	// Sandbox confines the processes; nil confines nothing.
	Sandbox *sandbox.Policy

	// NewPrivileges lets the processes gain privileges; see [process.Spec].
	NewPrivileges bool

	// Permit is asked before each process that is started other than by Serve: a command of
	// exec, and what a [Standby] keeps ready. Its error refuses the start. still, which may be
	// nil, is asked when the process has loaded its code, and its error refuses what the process
	// says. Nil permits all.
	Permit func(ctx context.Context) (still func() error, err error)

	// ClientInfo is the clientInfo of the handshake with an MCP server, an
	// Implementation object. Nil is that of the host.
	ClientInfo json.RawMessage

	// Roots are absolute paths of directories that the host answers roots/list of an MCP
	// server with. Empty: the callers are asked.
	Roots []string

	// Standby, if it holds a process, hands that process to the instance, which then
	// starts none. It must have the same command line and environment as the Spec.
	Standby *Standby

	// Resolve returns the spec with the values of secrets in place of references to them, and
	// tells their values to Secret. It is called before each start of a process and each
	// connection, whose failure its error is. Nil: there are no references.
	Resolve func(ctx context.Context, s *Spec) (*Spec, error)

	// Login gives the tokens for a remote server whose manifest states no other. Nil: it gets none.
	Login Login

	// Services connects to an extension that is a service on NATS; required for transport nats.
	Services Services

	// Secret is called with each new token that is read from transport.token_file or that Login
	// gives, and with the values of secrets before a process or a server gets them. May be nil.
	Secret func(value string)

	// Older asks an MCP server that speaks legacy and modern versions for a session of the older one.
	Older bool

	// Incoming takes the requests and notifications of the child that belong to no call
	// in flight. The result for a notification is dropped. Nil refuses requests as
	// unknown methods. Incoming runs on separate goroutines and must return when ctx
	// ends.
	Incoming func(ctx context.Context, method string, params json.RawMessage, notify bool) (json.RawMessage, error)

	// Held counts the requests and notifications of the child that the host has in hand, with those of all
	// instances that have it: they share a bound. Nil: each has its own.
	Held *Held

	// ToolsChanged is called when the tools of the child have changed after the
	// handshake; Handshake then returns the new tools. May be nil.
	ToolsChanged func()

	// Set by tests; 0 is the default.
	writeTimeout, probeTimeout, pingTimeout, exitGrace, slowStart, goneGrace time.Duration
}

// Held bounds what several instances ask and tell together.
type Held = jsonrpc.Held

// Login gives access tokens. Its methods may be called by many goroutines at once, and their errors
// are *protocol.Error.
type Login interface {
	// Token returns the token for a request; "" when nobody has signed in.
	Token(ctx context.Context) (string, error)
	// Renew returns another token than the one that the server has refused with a challenge, the
	// values of its WWW-Authenticate header; "" when the challenge asks for no login.
	Renew(ctx context.Context, refused string, challenge []string) (string, error)
	// Refused returns the error for a token that Renew has given and the server refuses too.
	Refused(token string) error
	// Needed says why a person has to sign in, and how; "" as far as is known nobody has to.
	Needed() string
}

// Services connects to extensions that are services on NATS. Package cluster/services has one: an
// embedding program that needs none links no client of NATS.
type Services interface {
	// Connect connects to the service of s, whose references to secrets are resolved, until the
	// transport is closed. ctx bounds the connecting alone. Its errors and those of the
	// transport are *protocol.Error: what was not sent has no Outcome.
	Connect(ctx context.Context, s *Spec) (jsonrpc.Transport, error)
}

// Instance is one run of an extension. A new run needs a new Instance.
type Instance interface {
	// Serve starts the extension, calls ready when the extension can take calls, and
	// blocks until the extension has ended and its processes are cleaned up. It may be
	// called once only. When ctx ends, Serve stops the extension in steps (shutdown for
	// native, stdin closed, shutdown_grace, SIGTERM, SIGKILL) and returns nil.
	// Otherwise it returns a *protocol.Error with the reason and Evidence; its kind is
	// overloaded when the host ended a child that was busy with abandoned calls.
	Serve(ctx context.Context, ready func()) error

	// Kill ends the processes of the extension at once, without these steps. It does
	// not wait; Serve returns soon after. Before Serve and after its end, Kill does
	// nothing.
	Kill()

	// Call sends one request and waits for its answer, the end of ctx or a time limit.
	// The answer to tools/call is an MCP CallToolResult, in all protocols. Errors are
	// *protocol.Error; Outcome is "unknown" when the extension may have acted on the
	// request.
	Call(ctx context.Context, r *Request) (json.RawMessage, error)

	// Notify sends a notification.
	Notify(ctx context.Context, method string, params json.RawMessage) error

	// Handshake returns the result of the handshake; nil before ready.
	Handshake() *Handshake

	// Info returns the state of the run.
	Info() Info
}

// Request is one request of a caller, in MCP's terms.
type Request struct {
	Method string          // an MCP method, hooks/{name} or governance/decide
	Params json.RawMessage // of the caller, but with the extension's own tool name; nil is {}
	Meta   json.RawMessage // members to add to the extension's _meta ([context] passthrough); nil for none
	// the party that makes the call, comparable; a request of the child that names no call goes to the owner of all
	// calls in flight; nil is no owner
	Owner  any
	Origin string // the id of the decision about the call, for a node of the cluster; "" for none
	// Capabilities are those of the caller's MCP client, for a server that learns them with
	// each request. Those in the _meta of Params count before them. Nil: those of Spec.
	Capabilities json.RawMessage

	Client protocol.Peer // takes notifications and requests of the child during this call; nil drops and refuses them
}

// Handshake is the checked result of the handshake.
type Handshake struct {
	ServerVersion   string                // of the extension; "" if unknown
	Protocol        string                // native, mcp, lite or exec
	ProtocolVersion string                // the MCP revision spoken; "" for the others
	Tools           []protocol.Tool       // in the order offered
	Hooks           []string              // in the order offered
	Capabilities    json.RawMessage       // of an MCP server, raw
	Instructions    string                // of an MCP server
	ServerInfo      json.RawMessage       // of an MCP server, raw; nil if absent
	Diagnostics     []protocol.Diagnostic // the tools and hooks that were left out, and why
}

// Info is a snapshot of one run.
type Info struct {
	PID             int       // 0 when no process runs
	StartedAt       time.Time // zero before the process was started
	Installing      bool      // the process is npx or the like, and nothing has come of the program that it downloads
	Protocol        string
	ProtocolVersion string // the MCP revision spoken; "" for the others

	Calls     uint64 // started so far
	InFlight  int    // calls without an answer yet, including abandoned ones
	Abandoned int    // of these, calls that ended by ctx or a timeout
	Late      uint64 // answers to abandoned calls
	Unknown   uint64 // answers to ids never sent
	Noise     uint64 // lines on stdout that were not frames
	Doubt     string // why the host doubts that the instance still works, and pings it; "" if it does not
	Stderr    []string
}

// defaultLine is the default of Options.MaxLineBytes.
const defaultLine = 16 << 20

// New returns an instance for the transport of the manifest.
func New(s Spec) (Instance, error) {
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	if s.Options.MaxLineBytes <= 0 {
		s.Options.MaxLineBytes = defaultLine
	}
	t := s.Manifest.Transport
	switch t.Kind {
	case manifest.KindStdio:
		return &StdioRuntime{run{spec: s, open: spawn}}, nil
	case manifest.KindHTTP, manifest.KindSSE, manifest.KindNATS:
		return &RemoteRuntime{run{spec: s, open: dial}}, nil
	case manifest.KindExec:
		return newExec(s), nil
	case manifest.KindReplay:
		return &ReplayRuntime{run{spec: s, open: play}}, nil
	}
	return nil, protocol.Errorf(protocol.ManifestInvalid, "transport kind %q has no runtime", t.Kind)
}

// Resolved returns s with the values of secrets in place of references to them; s itself where
// there are none. The error is a *protocol.Error.
func (s *Spec) Resolved(ctx context.Context) (*Spec, error) {
	out, fault := s.resolved(ctx)
	if fault != nil {
		return nil, fault
	}
	return out, nil
}

func (s *Spec) resolved(ctx context.Context) (*Spec, *protocol.Error) {
	if s.Resolve == nil {
		return s, nil
	}
	out, err := s.Resolve(ctx, s)
	if err != nil {
		return nil, faultOf(err, protocol.SpawnFailed)
	}
	return out, nil
}

// withExtension sets the extension's id on err and returns err.
func withExtension(s *Spec, err *protocol.Error) *protocol.Error {
	err.Extension = s.ID
	return err
}

// stallTimeout bounds the time in which the child reads nothing. It is not longer than
// CallTimeout, because a call that cannot be written cannot be answered either.
func (s *Spec) stallTimeout() time.Duration {
	if s.writeTimeout > 0 {
		return s.writeTimeout
	}
	return cmp.Or(min(s.Options.CallTimeout, maxStall), maxStall)
}

const maxStall = 30 * time.Second
