package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
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

// Spec describes an extension and how to run it. It must not change after the call of [New].
type Spec struct {
	ID       string             // the extension's id, named in logs and errors
	Dir      string             // the extension's directory, absolute
	Manifest *manifest.Manifest // required; its transport is stdio, exec, http, sse, nats or replay
	Options  manifest.Options   // from Manifest.Runtime.Resolve; zero durations mean no limit

	Config json.RawMessage // a native extension's config; nil is {}
	// Capabilities are the native or MCP client capabilities that the host can relay to the client; nil is {}.
	Capabilities json.RawMessage
	StateDir     string
	HostVersion  string
	Self         string               // executable for command = "exthost"; "" searches PATH
	Env          []string             // the child's complete environment
	Containment  *process.Containment // containment of the started processes; nil: process group only
	Logger       *slog.Logger         // already has the extension's id; nil discards
	Tap          *wiretap.Wire        // sees every frame; nil for none
	Record       *recorder.Wire       // sees every frame, the handshake and the end; nil for none

	// Replay answers in place of the extension; required for transport replay.
	Replay *player.Tape

	// Sandbox confines the processes; nil does not.
	Sandbox *sandbox.Policy

	// NewPrivileges lets the processes gain privileges; see [process.Spec].
	NewPrivileges bool

	// Permit is called before each start of a process outside Serve: of a command of exec, or of a [Standby]'s process.
	// If it returns an error, the process is not started. still, which may be nil, is called once the process has
	// loaded its code; if it returns an error, the process's output is not used. Nil permits everything.
	Permit func(ctx context.Context) (still func() error, err error)

	// ClientInfo is the clientInfo of an MCP handshake, an Implementation object; nil is the host's.
	ClientInfo json.RawMessage

	// Roots are the absolute paths of directories that the host answers roots/list with. Empty: the callers are asked.
	Roots []string

	// Standby, if it has a process ready, provides the process of the instance, which then starts none. It must have
	// been created for the same command line and environment.
	Standby *Standby

	// Resolve replaces references to secrets by their values, and passes the values to Secret. It is called before each
	// process start and each connection. If it returns an error, there is no start or connection. Nil: there are no
	// references.
	Resolve func(ctx context.Context, s *Spec) (*Spec, error)
	// Stored are the names of the secrets that Resolve replaces, sorted.
	Stored []string
	// Credentials are the names of the stored secrets that requests to a remote server have, sorted. Resolve sets it;
	// error texts name them.
	Credentials []string

	// Login provides the tokens for a remote server, unless the manifest states a token. May be nil.
	Login Login

	// Services connects to services on NATS; required for transport nats.
	Services Services

	// Secret is called with each new token from transport.token_file or Login, and with the values of secrets before a
	// process or server gets them. May be nil.
	Secret func(value string)

	// Older makes the host open a legacy session with an MCP server that supports both legacy and modern versions.
	Older bool
	// InitializeFirst is the InitializeFirst of an earlier Handshake of this program: an MCP server gets initialize as
	// its first request, so that it does not have to be started twice.
	InitializeFirst bool

	// Incoming handles the requests and notifications of the child that belong to no call in flight. Its result is
	// ignored for notifications. Nil refuses requests as unknown methods. Incoming runs on separate goroutines and must
	// return when ctx ends.
	Incoming func(ctx context.Context, method string, params json.RawMessage, notify bool) (json.RawMessage, error)

	// Held limits the bytes of children's requests and notifications that the host is handling, in total for all
	// instances with the same Held. Nil: each instance has its own limit.
	Held *Held

	// ToolsChanged is called when the child's tools have changed after the handshake; Handshake then returns the new
	// ones. May be nil.
	ToolsChanged func()

	// For tests; 0 is the default.
	writeTimeout, probeTimeout, pingTimeout, exitGrace, slowStart, goneGrace time.Duration
}

// Held is a limit that several instances share, see [Spec].Held. The zero value is ready to use; it has no fields and
// methods of its own.
type Held = jsonrpc.Held

// Login provides access tokens. Its methods must be safe for concurrent use, and their errors are *protocol.Error.
type Login interface {
	// Token returns the token for a request; "" if nobody has signed in.
	Token(ctx context.Context) (string, error)
	// Renew returns a new token after the server has refused the token refused. challenge holds the values of the
	// server's WWW-Authenticate header. Renew returns "" if the challenge does not ask for a login.
	Renew(ctx context.Context, refused string, challenge []string) (string, error)
	// Refused returns the error for a token from Renew that the server refuses too.
	Refused(token string) error
	// Needed tells why a person has to sign in, and how; "" if nobody has to, as far as is known.
	Needed() string
}

// Logins are a user's logins at remote servers. Its method must be safe for concurrent use.
type Logins interface {
	// Login returns the login for a place, even if nobody has signed in there yet. The transport states the server and
	// the client that users sign in as. The result may be a [SignsIn].
	Login(at LoginPlace, t *manifest.Transport) Login
}

// SignsIn is a login at which a caller can sign in while its call waits.
type SignsIn interface {
	Login
	// SignIn signs in. open has the user open an address in a browser on this machine, and returns once the user
	// has agreed.
	SignIn(ctx context.Context, open func(ctx context.Context, address string) error) error
}

// LoginPlace identifies a login: for what, and at which server.
type LoginPlace struct {
	ID string // the extension or destination
	// Of is the directory of the extension, or of the project whose files state the destination; "" for a
	// destination of the user's own files.
	Of     string
	URL    string // the server's
	Caller string // owner of the login; "": one for all callers
}

// Services connects to extensions that are services on NATS. Package cluster/services implements it, so that programs
// which embed the host without NATS do not link the NATS client.
type Services interface {
	// Connect connects to the service of s, with secrets already resolved. The connection lasts until the transport is
	// closed; ctx bounds only the connecting. The errors, also the transport's, are *protocol.Error; an error without
	// Outcome means that nothing was sent.
	Connect(ctx context.Context, s *Spec) (jsonrpc.Transport, error)
}

// Instance is one run of an extension. Each run needs a new Instance.
type Instance interface {
	// Serve starts the extension, calls ready when it can take calls, and blocks until it has ended and its processes
	// are cleaned up. It may be called only once. When ctx ends, Serve stops the extension in steps (shutdown request
	// if native, end of stdin, ShutdownGrace, SIGTERM, SIGKILL) and returns nil. Otherwise it returns a *protocol.Error
	// with the reason and Evidence; the kind is overloaded if the host ended a child that was busy with abandoned
	// calls.
	Serve(ctx context.Context, ready func()) error

	// Kill ends the extension's processes at once. It does not wait; Serve returns soon after. Before Serve and after
	// its end, Kill does nothing.
	Kill()

	// Call sends one request and waits for its answer, the end of ctx or a time limit. In all protocols, the answer to
	// tools/call is an MCP CallToolResult. Errors are *protocol.Error; Outcome is "unknown" if the extension may have
	// acted on the request.
	Call(ctx context.Context, r *Request) (json.RawMessage, error)

	// Notify sends a notification.
	Notify(ctx context.Context, method string, params json.RawMessage) error

	// Handshake returns the result of the handshake; nil before ready.
	Handshake() *Handshake

	// Info returns the state of the run.
	Info() Info
}

// Request is a request of a caller, in terms of MCP.
type Request struct {
	Method string          // an MCP method, hooks/{name} or governance/decide
	Params json.RawMessage // the caller's, but with the extension's own tool name; nil is {}
	// Plain says that Params are the name and arguments of a tool alone, so that a search of long arguments for _meta
	// can be left out. False: they may have _meta.
	Plain bool
	Meta  json.RawMessage // added to _meta of the request, if [context] passthrough is set; nil for none
	// Owner identifies the calling party and must be comparable; nil for none. A request of the child that names no
	// call goes to the owner of the calls in flight, if all have the same.
	Owner  any
	Origin string // id of the decision about the call, sent to a cluster node; "" for none
	// Capabilities are the caller's MCP client capabilities, for stateless servers. Capabilities in the _meta of Params
	// take precedence. Nil: Spec.Capabilities.
	Capabilities json.RawMessage

	Client protocol.Peer // handles notifications and requests of the child during this call; nil drops and refuses them
}

// Handshake is the checked result of a handshake.
type Handshake struct {
	ServerVersion   string                // the extension's version; "" if unknown
	Protocol        string                // native, mcp, lite or exec
	ProtocolVersion string                // MCP revision; "" for other protocols
	Tools           []protocol.Tool       // in the offered order
	Hooks           []string              // in the offered order
	Capabilities    json.RawMessage       // an MCP server's capabilities, raw
	Instructions    string                // an MCP server's instructions
	ServerInfo      json.RawMessage       // an MCP server's serverInfo, raw; nil if absent
	InitializeFirst bool                  // an MCP server ends if server/discover is its first request
	Undeclared      []string              // tools that it offers and [capabilities] does not list
	Diagnostics     []protocol.Diagnostic // about rejected tools and hooks
}

// Spoken returns the protocol, of MCP with the revision.
func (h *Handshake) Spoken() string { return strings.TrimSpace(h.Protocol + " " + h.ProtocolVersion) }

// Info is a snapshot of one run.
type Info struct {
	PID             int       // 0 if no process runs
	StartedAt       time.Time // zero before the process was started
	Installing      bool      // a package runner such as npx may still be installing the program
	Protocol        string
	ProtocolVersion string // MCP revision; "" for other protocols

	Calls     uint64 // started so far
	InFlight  int    // without an answer yet, including abandoned ones
	Abandoned int    // ended by ctx or a timeout, and still unanswered
	Late      uint64 // answers to abandoned calls
	Unknown   uint64 // answers to ids never sent
	Noise     uint64 // non-frame lines on stdout
	Doubt     string // why the instance is suspected to hang, and pinged; "" if it is not
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

// Resolved returns a copy of s with the values of secrets in place of references, or s itself if it has no references.
// The error is a *protocol.Error.
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

// withID sets the extension's id on err and returns err.
func (s *Spec) withID(err *protocol.Error) *protocol.Error {
	err.Extension = s.ID
	return err
}

// stallTimeout bounds how long the child may read nothing from its stdin. It is at most CallTimeout, as a call that
// cannot be written cannot be answered in time either.
func (s *Spec) stallTimeout() time.Duration {
	if s.writeTimeout > 0 {
		return s.writeTimeout
	}
	return cmp.Or(min(s.Options.CallTimeout, maxStall), maxStall)
}

const maxStall = 30 * time.Second
