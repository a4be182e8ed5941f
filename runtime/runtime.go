package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/wiretap"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Spec says which extension an instance runs and how. It must not be changed
// once it is given to [New].
type Spec struct {
	ID       string             // names the culprit in logs and errors
	Dir      string             // the extension's directory, absolute
	Manifest *manifest.Manifest // required; its transport is stdio, exec, http or sse
	Options  manifest.Options   // as Manifest.Runtime resolves; zero durations are no limit

	Config       json.RawMessage // what a native extension gets as config; nil is {}
	Capabilities json.RawMessage // what the host can relay: native capabilities or MCP client capabilities; nil is {}
	StateDir     string
	HostVersion  string
	Self         string               // the executable that command = "exthost" names; "" searches PATH for it
	Env          []string             // the child's complete environment
	Containment  *process.Containment // holds what the child starts; nil holds its process group
	Logger       *slog.Logger         // names the extension by itself; nil discards
	Tap          *wiretap.Wire        // is shown what passes; nil: nobody looks

	// ClientInfo is who the host says it is in the handshake with an MCP server, an
	// Implementation object; nil is the host itself.
	ClientInfo json.RawMessage

	// Standby, if it holds a process, gives it to the instance, which then starts
	// none. It must be of the same command line and environment.
	Standby *Standby

	// Secret is told of each token that is read from transport.token_file, when it is
	// another than before. Nil tells nobody.
	Secret func(value string)

	// Older asks an MCP server that speaks both eras for a session of the older one.
	Older bool

	// Incoming gets what the child asks and tells outside any call in flight.
	// The answer to a notification is dropped. Nil refuses requests as unknown
	// methods. It runs on goroutines of its own and must end with ctx.
	Incoming func(ctx context.Context, method string, params json.RawMessage, notify bool) (json.RawMessage, error)

	// ToolsChanged is called when the child's tools are no longer those of its
	// handshake and Handshake returns the new ones. Nil ignores it.
	ToolsChanged func()

	// Shortened by tests; 0 is the default.
	writeTimeout, probeTimeout, pingTimeout, exitGrace time.Duration
}

// Instance is one run of an extension. A new run needs a new Instance.
type Instance interface {
	// Serve starts the extension, calls ready when it can be called, and blocks
	// until it is gone and all it left is cleaned up. It is called once. When
	// ctx ends the extension is stopped by the ladder (shutdown for native,
	// stdin closed, shutdown_grace, SIGTERM, SIGKILL) and Serve returns nil;
	// else it returns a *protocol.Error saying why the run ended, with Evidence;
	// of kind overloaded when the host gave up a child too busy with calls that
	// nobody waits for.
	Serve(ctx context.Context, ready func()) error

	// Kill ends the extension's processes at once, without the ladder. It does not
	// wait; Serve returns soon after. Killing what has ended or not begun does nothing.
	Kill()

	// Call sends one request and waits for its answer, the end of ctx or a time
	// limit. The answer to tools/call is an MCP CallToolResult whatever the
	// extension speaks. Errors are *protocol.Error; Outcome is "unknown" when
	// the extension may have acted.
	Call(ctx context.Context, r *Request) (json.RawMessage, error)

	// Notify sends a notification.
	Notify(ctx context.Context, method string, params json.RawMessage) error

	// Handshake returns what the extension offers; nil before ready.
	Handshake() *Handshake

	// Info returns the state of the run.
	Info() Info
}

// Request is one request of a caller, in MCP's terms.
type Request struct {
	Method string          // an MCP method, hooks/{name} or governance/decide
	Params json.RawMessage // as the caller sent them, with the extension's own tool name; nil is {}
	Meta   json.RawMessage // object for the extension's _meta ([context] passthrough); nil adds none
	Owner  any             // on whose behalf it is made, comparable: what the child asks and no call names goes to the only owner there is; nil counts as nobody's
	Client protocol.Peer   // hears and answers the child during this call; nil drops and refuses
}

// Handshake is what an extension said about itself, checked.
type Handshake struct {
	ServerVersion string                // of the extension; "" when it did not say
	Protocol      string                // native, mcp, lite or exec
	Era           string                // the MCP revision spoken; "" for the others
	Tools         []protocol.Tool       // in the order offered
	Hooks         []string              // in the order offered
	Capabilities  json.RawMessage       // an MCP server's capabilities, as sent
	Instructions  string                // an MCP server's advice on its use
	ServerInfo    json.RawMessage       // who an MCP server says that it is, as sent; nil when it did not
	Diagnostics   []protocol.Diagnostic // what was left out, and why
}

// Info is a snapshot of one run.
type Info struct {
	PID       int       // 0 when no process lives
	StartedAt time.Time // zero before the process was started
	Protocol  string
	Era       string // the MCP revision spoken; "" for the others

	Calls     uint64 // begun so far
	InFlight  int    // calls the child owes an answer, abandoned ones included
	Abandoned int    // of these, calls whose caller has left
	Late      uint64 // answers to abandoned calls
	Unknown   uint64 // answers to ids never sent
	Noise     uint64 // lines on stdout that were not frames
	Stderr    []string
}

// defaultLine is the default of Options.MaxLineBytes.
const defaultLine = 16 << 20

// New returns the instance for the transport that the manifest states.
func New(s Spec) (Instance, error) {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Options.MaxLineBytes <= 0 {
		s.Options.MaxLineBytes = defaultLine
	}
	t := s.Manifest.Transport
	switch t.Kind {
	case manifest.KindStdio:
		return &StdioRuntime{run{spec: s, begin: spawn}}, nil
	case manifest.KindHTTP, manifest.KindSSE:
		return &RemoteRuntime{run{spec: s, begin: dial}}, nil
	case manifest.KindExec:
		return newExec(s), nil
	}
	return nil, protocol.Errorf(protocol.ManifestInvalid, "transport kind %q has no runtime", t.Kind)
}

// blame returns err with the extension's id on it.
func blame(s *Spec, err *protocol.Error) *protocol.Error {
	err.Extension = s.ID
	return err
}

// stallTimeout is how long the child may accept nothing: as long as a call may
// take, since a call that cannot even be written takes no less.
func (s *Spec) stallTimeout() time.Duration {
	if s.writeTimeout > 0 {
		return s.writeTimeout
	}
	return cmp.Or(min(s.Options.CallTimeout, maxStall), maxStall)
}

const maxStall = 30 * time.Second
