package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// destinations returns a configuration with one destination d, which runs the test binary as a scripted child.
func destinations(t testing.TB, script string, change func(*config.Destination)) *config.Config {
	t.Helper()
	d := config.Destination{
		Type:         config.DestinationStdio,
		Command:      manifest.Command{hosttest.Exe(t)},
		Env:          map[string]string{processtest.ScriptVar: script},
		Cwd:          t.TempDir(),
		StartTimeout: manifest.Duration(hosttest.Patience),
	}
	if change != nil {
		change(&d)
	}
	cfg := hosttest.NewFolder(t).Config()
	cfg.Extensions.Defaults.Restart.BaseBackoff = new(manifest.Duration) // restarts come at once
	cfg.Destinations = config.Destinations{"d": d}
	return cfg
}

func openDestination(t testing.TB, script string, change func(*config.Destination), o exthost.Options) *exthost.Host {
	t.Helper()
	return hosttest.NewFolder(t).OpenWith(destinations(t, script, change), o)
}

// connect opens a session with a destination, which starts an instance.
func connect(t testing.TB, h *exthost.Host, id string, env map[string]string) (s *protocol.Session, leave func()) {
	t.Helper()
	s = &protocol.Session{
		ID:         id,
		Version:    protocol.MCP20251125,
		Extension:  "d",
		Env:        env,
		Client:     hosttest.NewRecorder(),
		ClientInfo: json.RawMessage(`{"name":"test","version":"1"}`),
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	if err := h.Attach(ctx, s); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Describe(hosttest.Deadline(t), s); err != nil {
		t.Fatal(err)
	}
	return s, cancel
}

// ask calls a tool of the destination and returns its text, or the error.
func ask(t testing.TB, h *exthost.Host, s *protocol.Session, tool, arguments string) (string, error) {
	t.Helper()
	result, err := h.Do(hosttest.Deadline(t), &protocol.Call{
		Session:   s,
		Extension: "d",
		Method:    protocol.MethodToolsCall,
		Params:    json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)),
	})
	return protocol.ToolResult(result).Text(), err
}

func destinationStatus(t testing.TB, h *exthost.Host) status.Destination {
	t.Helper()
	all := h.Status().Destinations
	if len(all) != 1 {
		t.Fatalf("destinations: %+v", all)
	}
	return all[0]
}

// environOf returns the environment of a session's instance.
func environOf(t testing.TB, h *exthost.Host, s *protocol.Session) []string {
	t.Helper()
	text, err := ask(t, h, s, "environ", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(text, "\n")
}

func TestDestinationSessionsHaveOwnChildren(t *testing.T) {
	processtest.Leaks(t)
	h := openDestination(t, "mcp", nil, exthost.Options{})
	standby := destinationStatus(t, h).StandbyPID
	if standby == 0 {
		t.Error("no process waits for the first connection")
	}
	a, leaveA := connect(t, h, "a", nil)
	b, _ := connect(t, h, "b", nil)
	var pids []int
	for _, i := range destinationStatus(t, h).Instances {
		pids = append(pids, i.PID)
	}
	if len(pids) != 2 || pids[0] == pids[1] || !slices.Contains(pids, standby) {
		t.Errorf("the instances of two sessions are %v; %d was waiting", pids, standby)
	}
	for _, s := range []*protocol.Session{a, b} {
		if got, err := ask(t, h, s, "upper", `{"text":"`+s.ID+`"}`); err != nil || got != strings.ToUpper(s.ID) {
			t.Errorf("%s: %q, %v", s.ID, got, err)
		}
	}
	if n := len(h.Tools().Entries()); n != 0 {
		t.Errorf("%d tools of the destination are listed for all", n)
	}
	leaveA()
	hosttest.Eventually(t, "the child of the session that has left ends",
		func() bool { return len(destinationStatus(t, h).Instances) == 1 })
	if _, err := ask(t, h, b, "upper", `{"text":"b"}`); err != nil {
		t.Errorf("the other session: %v", err)
	}
	hosttest.Eventually(t, "another process waits",
		func() bool { pid := destinationStatus(t, h).StandbyPID; return pid != 0 && pid != standby })
}

// Policies see registered names of a destination's tools, clients see their own names.
func TestDestinationsPassGovernance(t *testing.T) {
	processtest.Leaks(t)
	policy := &sentinel{}
	h := openDestination(t, "mcp", nil,
		exthost.Options{Policies: []governance.Member{member("sentinel", governance.Authorization, policy)}})
	s, _ := connect(t, h, "a", nil)
	if _, err := ask(t, h, s, "upper", `{"text":"x"}`); err != nil {
		t.Fatal(err)
	}
	list, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{Session: s, Extension: "d", Method: protocol.MethodToolsList})
	if err != nil || !strings.Contains(string(list), `"name":"upper"`) {
		t.Errorf("tools/list: %s, %v", list, err)
	}
	want := []string{
		"response > initialize ",
		"request > tools/call ext_d_upper",
		"response > tools/call ext_d_upper",
		"request > tools/list ",
		"response > tools/list ",
	}
	if diff := cmp.Diff(want, policy.seen); diff != "" {
		t.Error(diff)
	}
}

// A rule for a destination's tool with a dot in its name applies even before the tools are listed.
func TestRuleOfDestinationWithDottedName(t *testing.T) {
	processtest.Leaks(t)
	cfg := destinations(t, "mcp", nil)
	cfg.Destinations = config.Destinations{"my.server": cfg.Destinations["d"]}
	cfg.Plugins = []governance.Spec{{Name: "access", Builtin: "access", Category: governance.Authorization,
		Config: map[string]any{
			"rules": []any{map[string]any{"effect": "deny", "tools": []any{"ext_my_server_upper"}}}}}}
	h := hosttest.NewFolder(t).OpenWith(cfg, exthost.Options{})
	_, err := h.Admin().TestCall(hosttest.Deadline(t),
		&protocol.Call{
			Extension: "my.server",
			Method:    protocol.MethodToolsCall,
			Params:    json.RawMessage(`{"name":"upper"}`),
		})
	if protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("%v, want a denial", err)
	}
}

func TestDestinationsGetTheirEnvironmentOnly(t *testing.T) {
	processtest.Leaks(t)
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte("# of the tracker\nexport TRACKER_TOKEN=\"s3cret-of-file\"\n\nPLAIN=a=b\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	h := openDestination(t, "mcp", func(d *config.Destination) {
		d.SecretsFile = secrets
		d.Env["URL"] = "https://${PLAIN}/?token=${TRACKER_TOKEN}"
		d.EnvFromHeaders = map[string]string{"X-Api-Key": "API_KEY"}
	}, exthost.Options{
		Environ: append(os.Environ(), "GITHUB_TOKEN=of-the-host", "NODE_OPTIONS=--require=evil", "PYTHONSTARTUP=evil"),
	})
	if pid := destinationStatus(t, h).StandbyPID; pid != 0 {
		t.Errorf("process %d waits, for nobody knows whom", pid)
	}
	a, _ := connect(t, h, "a", map[string]string{"API_KEY": "key-of-a-1"})
	b, _ := connect(t, h, "b", map[string]string{"API_KEY": "key-of-b-2"})
	for s, key := range map[*protocol.Session]string{a: "key-of-a-1", b: "key-of-b-2"} {
		env := environOf(t, h, s)
		for _, want := range []string{
			"API_KEY=" + key,
			"TRACKER_TOKEN=s3cret-of-file",
			"PLAIN=a=b",
			"URL=https://a=b/?token=s3cret-of-file",
		} {
			if !slices.Contains(env, want) {
				t.Errorf("%s: no %s", s.ID, want)
			}
		}
		for _, kv := range env { // the host keeps these to itself
			if name, _, _ := strings.Cut(kv, "="); name == "GITHUB_TOKEN" || name == "NODE_OPTIONS" ||
				name == "PYTHONSTARTUP" {
				t.Errorf("%s is given %s", s.ID, name)
			}
		}
	}
	status, err := json.Marshal(h.Admin().Status())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s3cret-of-file", "key-of-a-1", "key-of-b-2"} {
		if strings.Contains(string(status), secret) {
			t.Errorf("the status shows %s", secret)
		}
	}
}

// Secrets of a child appear neither in the log nor in the status or for clients, even if the child writes them
// everywhere.
func TestSecretsOfDestinationsAreMasked(t *testing.T) {
	processtest.Leaks(t)
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte("PLAIN=canary-of-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	h := openDestination(t, "env; fork env; exit 4", func(d *config.Destination) {
		d.SecretsFile, d.EnvFromHeaders = secrets, map[string]string{"X-Key": "ALSO_PLAIN"}
	}, exthost.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s := &protocol.Session{
		ID:        "a",
		Version:   protocol.MCP20251125,
		Extension: "d",
		Env:       map[string]string{"ALSO_PLAIN": "canary-of-header"},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := h.Attach(ctx, s); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t, h, s, "any", `{}`)
	status, _ := json.Marshal(h.Admin().Status())
	refusal := fmt.Sprintf("%+v %v", h.Bridge().Refuses(s), err)
	if err := h.Close(); err != nil { // the log is complete now
		t.Fatal(err)
	}
	for what, text := range map[string]string{"log": log.String(), "status": string(status), "error": refusal} {
		if strings.Contains(text, "canary-of") {
			t.Errorf("the %s shows a secret:\n%s", what, text)
		}
	}
	if !strings.Contains(log.String(), "PLAIN=") {
		t.Error("the child did not write its environment, so that this shows nothing")
	}
}

// A destination that cannot start fails at once with a reason.
func TestBrokenDestinationFailsAtOnce(t *testing.T) {
	processtest.Leaks(t)
	for name, change := range map[string]func(*config.Destination){
		"no-such-program": func(d *config.Destination) { d.Command = manifest.Command{"no-such-program"} },
		"NAME=value": func(d *config.Destination) {
			d.SecretsFile = filepath.Join(t.TempDir(), "s")
			if err := os.WriteFile(d.SecretsFile, []byte("what is this\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"UNSET_VARIABLE": func(d *config.Destination) { d.Command = append(d.Command, "${UNSET_VARIABLE}") },
	} {
		h := openDestination(t, "mcp", change, exthost.Options{})
		s := destinationStatus(t, h)
		if s.State != "failed" || !strings.Contains(s.Reason, name) {
			t.Errorf("%s: %s, %s", name, s.State, s.Reason)
		}
		err := h.Bridge().Refuses(&protocol.Session{ID: "a", Extension: "d", Version: protocol.MCP20251125})
		e, ok := err.(*protocol.Error)
		if !ok || e.Kind != protocol.Failed || e.RetryAfter == 0 || !strings.Contains(e.Message, name) ||
			e.Extension != "d" {
			t.Errorf("%s: refused with %v", name, err)
		}
		if _, err := ask(t, h, &protocol.Session{ID: "a", Extension: "d"}, "upper",
			`{}`); protocol.KindOf(err) != protocol.Failed {
			t.Errorf("%s: a call: %v", name, err)
		}
		if !slices.ContainsFunc(h.Status().Diagnostics,
			func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError && d.Extension == "d" }) {
			t.Errorf("%s: no diagnostic of it in %v", name, h.Status().Diagnostics)
		}
	}
}

// A child that dies during a call fails that call; the next one gets a new child, initialized like the first,
// without help of the client.
func TestDestinationGetsANewChild(t *testing.T) {
	processtest.Leaks(t)
	h := openDestination(t, "rich", nil, exthost.Options{})
	s, _ := connect(t, h, "a", nil)
	for range 5 {
		if _, err := ask(t, h, s, "die", `{}`); protocol.KindOf(err) != protocol.ChildExited {
			t.Fatalf("the call that it dies of: %v", err)
		}
		if got, err := ask(t, h, s, "log", `{}`); err != nil || got != "logged" {
			t.Fatalf("the next call: %q, %v", got, err)
		}
	}
}

// A child that dies is restarted three times. The fourth failure in a row blocks its connection for half a minute; then
// one call may try.
func TestDestinationThatKeepsDyingIsBlocked(t *testing.T) {
	processtest.Leaks(t)
	h := openDestination(t, "rich", nil, exthost.Options{})
	s, _ := connect(t, h, "a", nil)
	neighbour, _ := connect(t, h, "b", nil)
	for range 4 {
		if _, err := ask(t, h, s, "die", `{}`); protocol.KindOf(err) != protocol.ChildExited {
			t.Fatalf("the call that it dies of: %v", err)
		}
	}
	_, err := ask(t, h, s, "log", `{}`)
	e, ok := err.(*protocol.Error)
	if !ok || e.Kind != protocol.NotReady || e.RetryAfter <= 0 || e.RetryAfter > 30*time.Second || e.Evidence == nil ||
		e.Evidence.ExitCode == nil || *e.Evidence.ExitCode != 3 {
		t.Fatalf("the fifth: %v, %+v", err, e)
	}
	if err := h.Bridge().Refuses(s); protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("it would not be refused: %v", err)
	}
	if got, err := ask(t, h, neighbour, "log", `{}`); err != nil || got != "logged" {
		t.Errorf("the child of another session: %q, %v", got, err)
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "d"); err != nil { // resets the failures
		t.Fatal(err)
	}
	if got, err := ask(t, h, s, "log", `{}`); err != nil || got != "logged" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
}

// A child is restarted when it has died, not only with the next call.
func TestDestinationRestartsInTheBackground(t *testing.T) {
	processtest.Leaks(t)
	h := openDestination(t, "rich", nil, exthost.Options{})
	s, _ := connect(t, h, "a", nil)
	before := destinationStatus(t, h).Instances[0].PID
	if _, err := ask(t, h, s, "die", `{}`); protocol.KindOf(err) != protocol.ChildExited {
		t.Fatalf("the call that it dies of: %v", err)
	}
	hosttest.Eventually(t, "another child is ready", func() bool {
		all := destinationStatus(t, h).Instances
		return len(all) == 1 && all[0].State == "ready" && all[0].PID != before
	})
}

// The child of a new connection is restarted three times, while its first request waits. Then connections are refused.
// The log has the reason.
func TestDestinationThatNeverStarts(t *testing.T) {
	processtest.Leaks(t)
	var log bytes.Buffer
	h := openDestination(t, "err no API key; exit 4", nil,
		exthost.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i, want := range []protocol.Kind{protocol.ChildExited, protocol.NotReady} {
		s := &protocol.Session{ID: fmt.Sprint(i), Version: protocol.MCP20251125, Extension: "d"}
		_, err := ask(t, h, s, "any", `{}`)
		if e, ok := err.(*protocol.Error); !ok || e.Kind != want || e.RetryAfter == 0 {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if s := destinationStatus(t, h); s.Refuses == "" || s.RetryAt == nil {
		t.Errorf("the status does not say that connections are refused: %+v", s)
	}
	if err := h.Close(); err != nil { // the log is complete now
		t.Fatal(err)
	}
	for _, want := range []string{
		`level=WARN msg="no API key"`,
		`level=ERROR msg="unavailable: `,
		`last_words="no API key"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "msg=crashed"); n != 3 {
		t.Errorf("%d restarts:\n%s", n, log.String())
	}
}

// A host that tries out starts includes destinations.
func TestStartLazyTriesDestinations(t *testing.T) {
	processtest.Leaks(t)
	for script, want := range map[string]string{"mcp": "", "err no API key; exit 4": "no API key"} {
		h := openDestination(t, script, nil, exthost.Options{Mode: exthost.Mode{Inspect: true, StartLazy: true}})
		if err := h.Ready(hosttest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		var found []protocol.Diagnostic
		for _, d := range h.Status().Diagnostics {
			if d.Level == protocol.LevelError {
				found = append(found, d)
			}
		}
		if (want == "") != (len(found) == 0) || want != "" && !strings.Contains(found[0].Message, want) {
			t.Errorf("%s: %+v", script, found)
		}
	}
}

// Clients of a destination are told when a reload changes only policies, and with these what they see. Clients of the
// extensions are told once, not again for each destination.
func TestDestinationClientsAreToldOfPolicies(t *testing.T) {
	processtest.Leaks(t)
	cfg := destinations(t, "mcp", nil)
	next := cfg
	h := hosttest.NewFolder(t).OpenWith(cfg,
		exthost.Options{Reread: func() (*config.Config, error) { return next, nil }})
	s, _ := connect(t, h, "a", nil)
	other := &protocol.Session{ID: "b", Version: protocol.MCP20251125, Client: hosttest.NewRecorder()}
	if err := h.Attach(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	changed := *cfg
	changed.Plugins = []governance.Spec{{Name: "access", Builtin: "access", Category: governance.Authorization,
		Config: map[string]any{
			"rules": []any{map[string]any{"effect": "deny", "tools": []any{"ext_d_upper"}}}}}}
	next = &changed
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*protocol.Session{"destination": s, "extensions": other} {
		client := s.Client.(*hosttest.Recorder)
		hosttest.Eventually(t, "the client of the "+name+" is told",
			func() bool { return slices.Contains(client.Told(), protocol.MethodToolsListChanged+" ") })
	}
	if told := other.Client.(*hosttest.Recorder).Told(); len(told) != 1 {
		t.Errorf("the client of the extensions was told %v", told)
	}
	list, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{Session: s, Extension: "d", Method: protocol.MethodToolsList})
	if err != nil || strings.Contains(string(list), `"name":"upper"`) {
		t.Errorf("tools/list: %s, %v", list, err)
	}
}

func TestReloadOfDestinations(t *testing.T) {
	processtest.Leaks(t)
	cfg := destinations(t, "mcp", nil)
	next := cfg
	h := hosttest.NewFolder(t).OpenWith(cfg,
		exthost.Options{Reread: func() (*config.Config, error) { return next, nil }})
	s, _ := connect(t, h, "a", nil)
	if c, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil || !c.Empty() {
		t.Fatalf("nothing has changed: %+v, %v", c, err)
	}
	changed := *cfg
	d := cfg.Destinations["d"]
	d.Env = map[string]string{processtest.ScriptVar: "mcp", "EDITION": "second"}
	changed.Destinations = config.Destinations{"d": d}
	next = &changed
	if c, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil || !cmp.Equal(c.Destinations, []string{"d"}) {
		t.Fatalf("Reload: %+v, %v", c, err)
	}
	if env := environOf(t, h, s); !slices.Contains(env, "EDITION=second") {
		t.Error("the session is still served by the build before")
	}
	gone := *cfg
	gone.Destinations = nil
	next = &gone
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, h, s, "upper", `{"text":"x"}`); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a destination that is gone: %v", err)
	}
}

// Hooks decide about calls of a destination's tools too.
func TestHooksSeeTheCallsOfDestinations(t *testing.T) {
	var seen []string
	note := func(point hooks.Point) hooks.Handler {
		return hooks.Handler{
			Name:  string(point),
			Point: point,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				seen = append(seen, fmt.Sprint(e.Point, " ", e.Extension, " ", e.Tool, " ", e.OwnName))
				if strings.Contains(string(e.Payload), "forbidden") {
					return &hooks.Reply{Decision: hooks.Deny, Reason: "not that"}, nil
				}
				return nil, nil
			},
		}
	}
	h := openDestination(t, "mcp", nil,
		exthost.Options{Hooks: []hooks.Handler{note(hooks.BeforeToolCall), note(hooks.AfterToolCall)}})
	s, _ := connect(t, h, "1", nil)
	if got, err := ask(t, h, s, "upper", `{"text":"hello"}`); err != nil || got != "HELLO" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask(t, h, s, "upper", `{"text":"forbidden"}`); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("a call that a hook refuses: %v", err)
	}
	want := []string{
		"before_tool_call d ext_d_upper upper",
		"after_tool_call d ext_d_upper upper",
		"before_tool_call d ext_d_upper upper",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// The status lists the tools of a destination that has only legacy clients.
func TestToolsOfASharedDestinationWithLegacyClients(t *testing.T) {
	processtest.Leaks(t)
	h := openDestination(t, "mcp", func(d *config.Destination) { d.Instances = manifest.InstancesShared },
		exthost.Options{})
	connect(t, h, "1", nil)
	if s := destinationStatus(t, h); !slices.Contains(s.Tools, "ext_d_upper") {
		t.Errorf("tools in the status: %q", s.Tools)
	}
}

// A kept extension with a broken manifest and a destination with its id are separate units: neither stops for the
// other.
func TestDestinationWithTheIDOfAKeptExtension(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("d", hosttest.Child("sdk", ""))
	plain := f.Config()
	next := plain
	h := f.OpenWith(plain, exthost.Options{Reread: func() (*config.Config, error) { return next, nil }})
	f.Write("d/plugin.toml", "[broken")
	both := *f.Config()
	both.Destinations = destinations(t, "mcp", nil).Destinations
	next = &both
	if c, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil || len(c.Kept) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := os.RemoveAll(filepath.Join(f.Dir, "d")); err != nil {
		t.Fatal(err)
	}
	if c, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil || !slices.Equal(c.Removed, []string{"d"}) {
		t.Fatalf("%+v, %v", c, err)
	}
	s, _ := connect(t, h, "1", nil)
	if got, err := ask(t, h, s, "upper", `{"text":"x"}`); err != nil || got != "X" {
		t.Errorf("%q, %v", got, err)
	}
}
