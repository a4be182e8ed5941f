package test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// signedIn adapts a store to runtime.Logins.
type signedIn struct{ *logins.Store }

func (s signedIn) Login(p runtime.LoginPlace, _ *manifest.Transport) runtime.Login {
	return s.Store.Login(logins.Place(p))
}

// logIn signs in to the server of an extension.
func logIn(t testing.TB, store *logins.Store, p logins.Place, more ...string) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := signin.NewBrowser(0, func(address string) {
		if resp, err := http.Get(address); err == nil {
			resp.Body.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	earlier, err := store.Get(p)
	if err != nil {
		t.Fatal(err)
	}
	g, err := (&signin.Server{Place: p}).SignIn(hosttest.Deadline(t), b, more, earlier)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// remoteLogins opens a host with an extension on a server that requires logins.
func remoteLogins(t testing.TB, s *oauthtest.Servers) (*exthost.Host, *logins.Store, logins.Place) {
	t.Helper()
	h, store, p, _ := remoteLoginsIn(t, s, t.TempDir())
	return h, store, p
}

// remoteLoginsIn is remoteLogins with a directory for logins; it also returns the extension's folder.
func remoteLoginsIn(t testing.TB, s *oauthtest.Servers, dir string,
) (*exthost.Host, *logins.Store, logins.Place, *hosttest.Folder) {
	t.Helper()
	store := logins.Open(dir, signin.Client)
	t.Cleanup(store.Close)
	f := hosttest.NewFolder(t).Add("gh", "[transport]\nurl = \""+s.URL+"\"\n").Add("kid", hosttest.Child("sdk", ""))
	p := logins.Place{ID: "gh", Of: filepath.Join(f.Dir, "gh"), URL: s.URL}
	h := f.Open(exthost.Options{Logins: func(*config.Config) runtime.Logins { return signedIn{store} }})
	return h, store, p, f
}

// TestLogin: a server that requires a login says so, works after signing in, and keeps working while tokens can
// be renewed.
func TestLogin(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	h, store, p := remoteLogins(t, s)
	if x := hosttest.StatusOf(t, h, "gh"); x.State != "failed" || x.Reason != "needs login: exthost secret login gh" ||
		x.Login != x.Reason || x.LastCrash != nil {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
	logIn(t, store, p)
	if err := h.Admin().Restart(hosttest.Deadline(t), "gh"); err != nil {
		t.Fatal(err)
	}
	hosttest.Eventually(t, "its tools are listed",
		func() bool { _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); return err == nil })
	for range 3 {
		if r, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); err != nil || r.Text() != "hello" {
			t.Fatal(r, err)
		}
		s.Expire()
	}
	var wg sync.WaitGroup
	before, _ := s.Refreshes()
	for range 64 {
		wg.Go(func() {
			if _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if after, refused := s.Refreshes(); after != before+1 || refused > 0 {
		t.Errorf("%d refreshes, %d refused", after-before, refused)
	}
	s.Revoke()
	_, err := h.Call(context.Background(), "ext_gh_hello", nil)
	if protocol.KindOf(err) != protocol.RequirementMissing ||
		!strings.Contains(err.Error(), "exthost secret login gh") {
		t.Error(err)
	}
}

// remoteDestination opens a host with a destination d that requires logins.
func remoteDestination(t testing.TB, s *oauthtest.Servers, credentials string, l runtime.Logins,
	policies ...governance.Member) *exthost.Host {
	return openDestination(t, "", func(d *config.Destination) {
		*d = config.Destination{
			Type:         config.DestinationHTTP,
			URL:          s.URL,
			StartTimeout: d.StartTimeout,
			Credentials:  credentials,
		}
	}, exthost.Options{Logins: func(*config.Config) runtime.Logins { return l }, Policies: policies})
}

// TestLoginOfADestination signs in to a destination by its id.
func TestLoginOfADestination(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store := logins.Open(t.TempDir(), signin.Client)
	t.Cleanup(store.Close)
	h := remoteDestination(t, s, "", signedIn{store})
	client := &protocol.Session{ID: "one", Version: protocol.MCP20251125, Extension: "d"}
	call := func() error { _, err := ask(t, h, client, "hello", "{}"); return err }
	if err := call(); protocol.KindOf(err) != protocol.RequirementMissing ||
		!strings.Contains(err.Error(), "needs login: exthost secret login d") {
		t.Error(err)
	}
	if d := destinationStatus(t, h); d.Login != "needs login: exthost secret login d" {
		t.Errorf("%+v", d.Extension)
	}
	logIn(t, store, logins.Place{ID: "d", URL: s.URL})
	if err := h.Admin().Restart(hosttest.Deadline(t), "d"); err != nil {
		t.Fatal(err)
	}
	if err := call(); err != nil {
		t.Error(err)
	}
	if d := destinationStatus(t, h); d.Login != "" {
		t.Errorf("%+v", d.Extension)
	}
}

// TestLoginOfEachCaller: with caller logins, no caller uses another's login, and a caller without one does not
// affect others.
func TestLoginOfEachCaller(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store := logins.Open(t.TempDir(), signin.Client)
	t.Cleanup(store.Close)
	h := remoteDestination(t, s, config.CredentialsPerCaller, signedIn{store})
	call := func(id, caller, version string) error {
		_, err := ask(t, h, &protocol.Session{ID: id, Caller: caller, Version: version, Extension: "d"}, "hello", "{}")
		return err
	}
	logIn(t, store, logins.Place{ID: "d", URL: s.URL}) // a login without a caller
	for range 5 {
		if err := call("b", "bob", protocol.MCP20251125); protocol.KindOf(err) != protocol.RequirementMissing &&
			protocol.KindOf(err) != protocol.NotReady {
			t.Error(err)
		}
	}
	if err := call("b2", "bob smith", protocol.MCP20251125); err == nil ||
		!strings.Contains(err.Error(), "needs login: exthost secret login d --caller 'bob smith'") {
		t.Error(err)
	}
	if err := call("x", "", protocol.MCP20251125); protocol.KindOf(err) != protocol.RequirementMissing ||
		!strings.Contains(err.Error(), "exthost client add") {
		t.Error(err)
	}
	logIn(t, store, logins.Place{ID: "d", URL: s.URL, Caller: "alice"})
	for _, id := range []string{"a", ""} { // a session, and a stateless caller
		for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
			if err := call(id, "alice", version); err != nil {
				t.Error(id, version, err)
			}
		}
	}
	if err := call("a", "mallory", protocol.MCP20251125); protocol.KindOf(err) != protocol.Rejected {
		t.Error("with the session of another caller:", err)
	}
	if err := call("", "mallory", protocol.MCP20260728); protocol.KindOf(err) != protocol.RequirementMissing {
		t.Error("without a login:", err)
	}
}

// opener is a client whose user opens addresses and approves.
type opener struct {
	*hosttest.Recorder
	action string
	opened chan string
}

func (o opener) Call(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	var p struct{ Mode, URL, Message, ElicitationID string }
	if err := json.Unmarshal(params, &p); err != nil || method != protocol.MethodElicit || p.Mode != "url" ||
		p.ElicitationID == "" {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%s %s", method, params)
	}
	o.opened <- p.Message
	if o.action == "accept" {
		if resp, err := http.Get(p.URL); err == nil {
			resp.Body.Close()
		}
	}
	return json.RawMessage(`{"action":"` + o.action + `"}`), nil
}

// askingLogins lets callers sign in while their calls wait.
type askingLogins struct{ *logins.Store }

type askingLogin struct {
	*logins.Login
	store *logins.Store
	place logins.Place
}

func (a askingLogins) Login(p runtime.LoginPlace, _ *manifest.Transport) runtime.Login {
	return askingLogin{a.Store.Login(logins.Place(p)), a.Store, logins.Place(p)}
}

func (l askingLogin) SignIn(ctx context.Context, open func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b, err := signin.NewBrowser(0, func(address string) {
		if err := open(ctx, address); err != nil {
			cancel(err)
		}
	})
	if err != nil {
		return err
	}
	defer b.Close()
	g, err := (&signin.Server{Place: l.place}).SignIn(ctx, b, nil, nil)
	if err != nil {
		return err
	}
	return l.store.Put(ctx, g)
}

// unasked is a policy that denies elicitation for one caller.
type unasked string

func (p unasked) Decide(_ context.Context, _ governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if x.Method == protocol.MethodElicit && x.Extension == "d" && !x.ToChild && x.Caller == string(p) {
		return governance.Decision{Action: governance.Deny}, nil
	}
	return governance.Decision{}, nil
}

// TestLoginIsAskedFor: a caller that can open addresses is asked to sign in, and its call continues. A caller
// that declines, cannot or may not be asked gets an error with the command.
func TestLoginIsAskedFor(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	store := logins.Open(t.TempDir(), signin.Client)
	t.Cleanup(store.Close)
	h := remoteDestination(t, s, config.CredentialsPerCaller, askingLogins{store},
		governance.Member{Spec: governance.Spec{Name: "p", Category: governance.Content}, Policy: unasked("gus")})
	call := func(caller, version, capabilities, action string) (opener, error) {
		o := opener{hosttest.NewRecorder(), action, make(chan string, 10)}
		session := &protocol.Session{
			ID:           caller,
			Caller:       caller,
			Version:      version,
			Extension:    "d",
			Capabilities: json.RawMessage(capabilities),
		}
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Session:   session,
				Extension: "d",
				Method:    protocol.MethodToolsCall,
				Params:    json.RawMessage(`{"name":"hello","arguments":{}}`),
				Client:    o,
			})
		return o, err
	}
	const able = `{"elicitation":{"form":{},"url":{}}}`
	o, err := call("ada", protocol.MCP20251125, `{"elicitation":{"form":{}}}`, "accept")
	if protocol.KindOf(err) != protocol.RequirementMissing || len(o.opened) != 0 {
		t.Errorf("unable: %v, asked %d times", err, len(o.opened))
	}
	o, err = call("bob", protocol.MCP20251125, able, "decline")
	if protocol.KindOf(err) != protocol.RequirementMissing || len(o.opened) != 1 ||
		!strings.Contains(err.Error(), "exthost secret login d --caller bob") {
		t.Errorf("declined: %v, asked %d times", err, len(o.opened))
	}
	o, err = call("gus", protocol.MCP20251125, able, "accept")
	if protocol.KindOf(err) != protocol.RequirementMissing || len(o.opened) != 0 {
		t.Errorf("denied: %v, asked %d times", err, len(o.opened))
	}
	for caller, version := range map[string]string{"eve": protocol.MCP20251125, "fay": protocol.MCP20260728} {
		o, err := call(caller, version, able, "accept")
		if err != nil || len(o.opened) != 1 || !strings.HasPrefix(<-o.opened, "d wants you to sign in at 127.0.0.1:") {
			t.Errorf("%s: %v", caller, err)
		}
		if told := o.Told(); len(told) != 1 || !strings.HasPrefix(told[0], "notifications/elicitation/complete") {
			t.Errorf("%s was told %q", caller, told)
		}
		if o, err := call(caller, version, able, "decline"); err != nil || len(o.opened) != 0 {
			t.Errorf("%s again: %v, asked %d times", caller, err, len(o.opened))
		}
	}
}

// needing is a login that is always needed; it counts how often a caller is asked.
type needing struct {
	asked  *atomic.Int32
	stated func(*manifest.Transport)
}

func (n needing) Login(_ runtime.LoginPlace, t *manifest.Transport) runtime.Login {
	n.stated(t)
	return neededLogin{n.asked}
}

type neededLogin struct{ asked *atomic.Int32 }

func (neededLogin) Token(context.Context) (string, error) { return "", nil }

func (neededLogin) Renew(context.Context, string, []string) (string, error) {
	return "", protocol.Errorf(protocol.RequirementMissing, "needs login")
}

func (neededLogin) Refused(string) error {
	return protocol.Errorf(protocol.RequirementMissing, "needs login")
}

func (neededLogin) Needed() string { return "needs login" }

func (l neededLogin) SignIn(context.Context, func(context.Context, string) error) error {
	l.asked.Add(1)
	return context.Canceled
}

// TestLoginIsNotAskedFor: no caller is asked to sign in when its call fails for another reason, such as a secret
// withheld from the destination, or when the caller is on another machine. The login uses the destination's
// configured client.
func TestLoginIsNotAskedFor(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	for _, tt := range []struct {
		secret string
		remote bool
		want   int32
	}{{"", false, 1}, {"secret://of_others", false, 0}, {"", true, 0}} {
		n := needing{new(atomic.Int32), func(tr *manifest.Transport) {
			if tr.OAuth == nil || tr.OAuth.ClientID != "mine" {
				t.Errorf("the login is of the client %+v", tr.OAuth)
			}
		}}
		h := openDestination(t, "", func(d *config.Destination) {
			*d = config.Destination{
				Type:         config.DestinationHTTP,
				URL:          s.URL,
				StartTimeout: d.StartTimeout,
				OAuth:        &manifest.OAuthClient{ClientID: "mine", ClientSecret: tt.secret},
			}
		}, exthost.Options{Logins: func(*config.Config) runtime.Logins { return n }})
		session := &protocol.Session{
			ID:           "a",
			Version:      protocol.MCP20251125,
			Extension:    "d",
			Remote:       tt.remote,
			Capabilities: json.RawMessage(`{"elicitation":{"url":{}}}`),
		}
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Session:   session,
				Extension: "d",
				Method:    protocol.MethodToolsCall,
				Params:    json.RawMessage(`{"name":"hello","arguments":{}}`),
				Client:    hosttest.NewRecorder(),
			})
		if got := n.asked.Load(); err == nil || got != tt.want {
			t.Errorf("%+v: %v, asked %d times", tt, err, got)
		}
	}
}

// silent is a client that never answers.
type silent struct {
	*hosttest.Recorder
	asked chan struct{}
}

func (s silent) Call(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLoginIsAskedForUntilTheEnd: a call that waits for a login ends with the host.
func TestLoginIsAskedForUntilTheEnd(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store := logins.Open(t.TempDir(), signin.Client)
	t.Cleanup(store.Close)
	h := remoteDestination(t, s, "", askingLogins{store})
	session := &protocol.Session{
		ID:           "a",
		Version:      protocol.MCP20251125,
		Extension:    "d",
		Capabilities: json.RawMessage(`{"elicitation":{"url":{}}}`),
	}
	client := silent{hosttest.NewRecorder(), make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := h.Do(context.Background(),
			&protocol.Call{
				Session:   session,
				Extension: "d",
				Method:    protocol.MethodToolsCall,
				Params:    json.RawMessage(`{"name":"hello","arguments":{}}`),
				Client:    client,
			})
		ended <- err
	}()
	<-client.asked
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if protocol.KindOf(err) != protocol.RequirementMissing {
			t.Error(err)
		}
	case <-hosttest.Deadline(t).Done():
		t.Fatal("the call goes on after the end of its host")
	}
}
