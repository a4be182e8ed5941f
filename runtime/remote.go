package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcpclient"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// RemoteRuntime connects to a remote MCP server, over streamable HTTP or the older HTTP with server-sent events, or to
// a service on NATS. A run is one connection: it ends when the server is unreachable or has lost the session, or the
// service is gone.
type RemoteRuntime struct{ run }

var _ Instance = (*RemoteRuntime)(nil)

// remote is the endpoint of a connection over HTTP or NATS. It has no process; the transport reports the end.
type remote struct {
	jsonrpc.Transport
	closed chan struct{}
	close  func()
}

var _ endpoint = (*remote)(nil)

// dial prepares the connection. Nothing is sent before run.
func dial(ctx context.Context, s *Spec, d dialect) (*child, *protocol.Error) {
	given, fault := s.resolved(ctx)
	if fault != nil {
		return nil, fault
	}
	t, err := connect(ctx, given)
	if err != nil {
		return nil, faultOf(err, protocol.ManifestInvalid)
	}
	r := &remote{Transport: t, closed: make(chan struct{})}
	r.close = sync.OnceFunc(func() { _ = t.Close(); close(r.closed) })
	c := newChild(s, d, r)
	c.connect(&tappedTransport{Transport: t, seen: c.observers()})
	return c, nil
}

// connect returns a transport to the server or service of s, with secrets already resolved.
func connect(ctx context.Context, s *Spec) (jsonrpc.Transport, error) {
	if s.Manifest.Transport.Kind == manifest.KindNATS {
		if s.Services == nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid,
				"this program connects to no services on NATS: set Services of its exthost.Options")
		}
		return s.Services.Connect(ctx, s)
	}
	o, err := s.clientOptions()
	if err != nil {
		return nil, err
	}
	var t jsonrpc.Transport
	if s.Manifest.Transport.Kind == manifest.KindSSE {
		t, err = mcpclient.NewEvents(o)
	} else {
		t, err = mcpclient.NewStreamable(o)
	}
	if err != nil {
		return nil, fmt.Errorf("transport.url: %w", err)
	}
	return t, nil
}

func (s *Spec) clientOptions() (mcpclient.Options, error) {
	t := &s.Manifest.Transport
	o := mcpclient.Options{
		URL:       t.URL,
		Header:    http.Header{"User-Agent": {"exthost/" + cmp.Or(s.HostVersion, "0")}},
		Secrets:   s.Credentials,
		MaxBytes:  s.Options.MaxLineBytes,
		GoneGrace: s.goneGrace,
	}
	for name, value := range t.Headers {
		if !httpguts.ValidHeaderFieldValue(value) {
			return o, noHeader("headers", name)
		}
		o.Header.Set(name, value)
	}
	switch {
	case t.TokenEnv != "":
		token, err := s.Token()
		switch {
		case err != nil:
			return o, err
		case !httpguts.ValidHeaderFieldValue(token):
			return o, noHeader("token_env", t.TokenEnv)
		}
		o.Token = func(context.Context) (string, error) { return token, nil }
	case t.TokenFile != "":
		o.Token = tokenFile(s.Dir, t.TokenFile, s.Secret)
	case s.Login != nil:
		l := &tokenReporter{login: s.Login, report: s.Secret}
		o.Token, o.Renew, o.Refused = l.token, l.renew, s.Login.Refused
	}
	return o, nil
}

func noHeader(key, name string) error {
	return protocol.Errorf(protocol.ManifestInvalid,
		"transport.%s: the value of %s has a line break or another character that no header can have", key, name)
}

// Token returns the content of the transport's token_env or token_file without the white space around it; "" if
// neither is stated.
func (s *Spec) Token() (string, error) {
	t := &s.Manifest.Transport
	switch {
	case t.TokenFile != "":
		return (&tokenReporter{report: s.Secret}).seen(readSecret(s.Dir, t.TokenFile))
	case t.TokenEnv == "":
		return "", nil
	}
	text, _ := process.Lookup(s.Env)(t.TokenEnv)
	token := strings.TrimSpace(text)
	if token == "" {
		return "", protocol.Errorf(protocol.ManifestInvalid,
			"transport.token_env: %s is not set, or withheld from the extension: add it to requires.env", t.TokenEnv)
	}
	return (&tokenReporter{report: s.Secret}).seen(token, nil) // the variable with white space is another secret
}

// tokenFile returns a function that reads the token for each request and passes each new one to report.
func tokenFile(dir, name string, report func(string)) func(context.Context) (string, error) {
	l := &tokenReporter{report: report}
	return func(context.Context) (string, error) { return l.seen(readToken(dir, name)) }
}

// tokenReporter reports the tokens that requests are sent with, so that they can be redacted.
type tokenReporter struct {
	login  Login
	report func(token string) // may be nil

	mu   sync.Mutex
	last string
}

// seen reports a token that differs from the previous one. It returns its arguments.
func (t *tokenReporter) seen(token string, err error) (string, error) {
	if err != nil || token == "" || t.report == nil {
		return token, err
	}
	t.mu.Lock()
	another := token != t.last
	t.last = token
	t.mu.Unlock()
	if another {
		t.report(token)
	}
	return token, nil
}

func (t *tokenReporter) token(ctx context.Context) (string, error) { return t.seen(t.login.Token(ctx)) }

func (t *tokenReporter) renew(ctx context.Context, refused string, challenge []string) (string, error) {
	return t.seen(t.login.Renew(ctx, refused, challenge))
}

// maxToken is the largest size of a token file in bytes.
const maxToken = 64 << 10

// readToken reads the bearer token. It is not cached, because its issuer may replace it.
func readToken(dir, name string) (string, error) {
	token, err := readSecret(dir, name)
	if err == nil && strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		err = noToken(dir, name)
	}
	if err != nil {
		return "", err
	}
	return token, nil
}

func noToken(dir, name string) error {
	return protocol.Errorf(protocol.ManifestInvalid,
		"transport.token_file: %s holds no token: one word of plain characters is expected", filepath.Join(dir, name))
}

// readSecret reads a file below dir. It follows no link out of dir, because the manifest chooses the server that gets
// the secret.
func readSecret(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", protocol.Errorf(protocol.ManifestInvalid, "transport.token_file: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return "", protocol.Errorf(protocol.ManifestInvalid, "transport.token_file: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxToken:
		return "", protocol.Errorf(protocol.ManifestInvalid, "transport.token_file: %s is no file of at most %d bytes",
			path, maxToken)
	}
	text, err := root.ReadFile(name)
	token := strings.TrimSpace(string(text))
	if err != nil || token == "" {
		return "", noToken(dir, name)
	}
	return token, nil
}

func (r *remote) Exited() <-chan struct{}          { return r.closed }
func (r *remote) Done() <-chan struct{}            { return r.closed }
func (r *remote) Dying() bool                      { return false }
func (r *remote) PID() int                         { return 0 }
func (r *remote) Kill()                            { r.close() }
func (r *remote) Tail() []string                   { return nil }
func (r *remote) evidence(bool) *protocol.Evidence { return &protocol.Evidence{} }
func (r *remote) exit() string                     { return "the connection was closed" }

// hangupTimeout bounds the request that ends the session.
const hangupTimeout = time.Second

// Stop ends the session and closes the connection.
func (r *remote) Stop(ctx context.Context, grace time.Duration) error {
	if t, ok := r.Transport.(interface{ EndSession(context.Context) }); ok {
		ctx, cancel := context.WithTimeout(ctx, min(grace, hangupTimeout))
		defer cancel()
		t.EndSession(ctx)
	}
	r.close()
	return nil
}

// setTools makes calls repeat arguments in HTTP headers, where the schemas of the tools ask for that.
func (r *remote) setTools(tools []protocol.Tool) {
	s, ok := r.Transport.(*mcpclient.Streamable)
	if !ok {
		return
	}
	mirrors := make(map[string][]mcphttp.Mirror)
	for _, t := range tools {
		if found, err := mcphttp.Mirrors(rawjson.Get(t.Raw, "inputSchema")); err == nil && found != nil {
			mirrors[t.Name] = found
		}
	}
	s.SetMirrors(mirrors)
}

// remoteFault translates an error of an HTTP exchange. It returns nil for other errors, and for errors that end the
// run, because those are reported when the run has ended.
func remoteFault(err error) *protocol.Error {
	var status *mcpclient.StatusError
	var broken *mcpclient.BrokenError
	var credentials *mcpclient.CredentialsError
	switch {
	case errors.Is(err, jsonrpc.ErrClosed):
	case errors.As(err, &broken): // first: its cause may be a refused attempt to resume the answer
		fault := protocol.Errorf(protocol.InvalidResponse, "%w", broken)
		fault.Outcome = "unknown"
		return fault
	case errors.As(err, &credentials):
		fault := *faultOf(credentials.Err, protocol.RequirementMissing) // copied: several calls may get the same error
		return &fault
	case errors.As(err, &status):
		kind := protocol.ExtensionError
		switch {
		case status.Code == http.StatusTooManyRequests, status.Code == http.StatusServiceUnavailable:
			kind = protocol.NotReady
		case status.Code >= 500:
			kind = protocol.InvalidResponse
		}
		fault := protocol.Errorf(kind, "%w", status)
		fault.RetryAfter, fault.Next = status.RetryAfter, status.Next
		fault.Data = json.RawMessage(`{"http_status":` + strconv.Itoa(status.Code) + `}`)
		if !status.Refused() {
			fault.Outcome = "unknown"
		}
		return fault
	}
	return nil
}

// connectionFault translates the error that ended the connection to a server or service; nil for other errors.
func connectionFault(err error, ready bool) *protocol.Error {
	if fault, ok := errors.AsType[*protocol.Error](err); ok && !errors.As(err, new(*mcpclient.CredentialsError)) {
		ended := *fault // copied: calls may have got the same error
		ended.Outcome = ""
		return &ended
	}
	var unreachable *mcpclient.UnreachableError
	kind := protocol.ChildExited
	switch {
	case errors.As(err, &unreachable) && !ready:
		kind = protocol.SpawnFailed
	case errors.As(err, &unreachable), errors.Is(err, mcpclient.ErrSessionGone),
		errors.Is(err, mcpclient.ErrStreamEnded):
	default:
		fault := remoteFault(err)
		if fault != nil && !ready && !errors.As(err, new(*mcpclient.CredentialsError)) {
			fault.Kind, fault.Outcome = protocol.HandshakeInvalid, ""
		}
		return fault
	}
	return protocol.Errorf(kind, "%w", err)
}
