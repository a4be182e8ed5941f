package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// vault is an in-memory store of secrets.
type vault struct {
	mu     sync.Mutex
	values map[string]string
}

func (v *vault) set(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[name] = value
}

// Lookup implements exthost.Secrets.
func (v *vault) Lookup(_ context.Context, name string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values[name], v.check(name)
}

// Check implements exthost.Secrets.
func (v *vault) Check(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.check(name)
}

func (v *vault) check(name string) error {
	if v.values[name] == "" {
		return fmt.Errorf("the secret %s is not stored; set it", name)
	}
	return nil
}

func (v *vault) options() exthost.Options {
	return exthost.Options{Secrets: func(*config.Config) exthost.Secrets { return v }}
}

// asking returns the manifest of a child with a variable.
func asking(name, value string) string {
	return hosttest.ToolsOfChild + fmt.Sprintf("[transport]\ncommand = \"%%EXE%%\"\nenv = { %s = \"sdk\", %s = %q }\n",
		processtest.ScriptVar, name, value)
}

// TestStoredSecretsReachTheChild: a child gets a secret's current value at each start, and only where the
// manifest refers to it.
func TestStoredSecretsReachTheChild(t *testing.T) {
	processtest.Leaks(t)
	v := &vault{values: map[string]string{"github": "f1rst-canary", "db": "p4ss-canary"}}
	f := hosttest.NewFolder(t).Add("given", hosttest.Child("sdk", "")).Add("manifest",
		asking("DSN", "postgres://app:secret://db@host/app")).Add("bare", hosttest.Child("sdk", ""))
	f.Entries["given"] = config.Entry{
		Env:     map[string]string{"TOKEN": "secret://github"},
		FileEnv: map[string]string{"FILED": "Bearer secret://github"},
	}
	o := v.options()
	o.Environ = []string{"HOSTS=secret://github"} // the host's own environment is not searched for references
	h := f.Open(o)
	environ := func(id string) []string {
		t.Helper()
		got, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_environ", map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(got.Text(), "\n")
	}
	for id, want := range map[string][]string{
		"given":    {"TOKEN=f1rst-canary", "FILED=Bearer f1rst-canary", "HOSTS=secret://github"},
		"manifest": {"DSN=postgres://app:p4ss-canary@host/app"},
	} {
		for _, kv := range want {
			if got := environ(id); !slices.Contains(got, kv) {
				t.Errorf("%s: no %s in %q", id, kv, got)
			}
		}
	}
	if got := strings.Join(environ("bare"), " "); strings.Contains(got, "canary") {
		t.Errorf("it has a secret that nobody gave it: %s", got)
	}
	v.set("github", "s3c0nd-canary")
	if got := environ("given"); !slices.Contains(got, "TOKEN=f1rst-canary") {
		t.Errorf("before a start: %q", got)
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "given"); err != nil {
		t.Fatal(err)
	}
	if got := environ("given"); !slices.Contains(got, "TOKEN=s3c0nd-canary") {
		t.Errorf("after a start: %q", got)
	}
}

// TestStoredSecretsReachTheServer: a remote server gets secrets in headers and in its URL.
func TestStoredSecretsReachTheServer(t *testing.T) {
	processtest.Leaks(t)
	server := remoteServer(t, "s3cr3t-canary")
	v := &vault{values: map[string]string{"remote": "s3cr3t-canary", "lines": "a\nb"}}
	f := hosttest.NewFolder(t)
	f.Add("header", fmt.Sprintf("[transport]\nurl = %q\nheaders = { Authorization = \"Bearer secret://remote\" }\n",
		server.URL))
	f.Add("variable", fmt.Sprintf("[transport]\nurl = %q\nheaders = { Authorization = \"Bearer ${TOKEN}\" }\n",
		server.URL))
	f.Add("lines", fmt.Sprintf("[transport]\nurl = %q\nheaders = { Authorization = \"Bearer secret://lines\" }\n",
		server.URL))
	f.Entries["variable"] = config.Entry{Env: map[string]string{"TOKEN": "secret://remote"}}
	h := f.Open(v.options())
	for _, id := range []string{"header", "variable"} {
		if got, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_upper", map[string]any{"text": "über"}); err != nil ||
			got.Text() != "ÜBER" {
			t.Errorf("%s: %s, %v; %+v", id, got, err, hosttest.StatusOf(t, h, id).Reason)
		}
	}
	if s := hosttest.StatusOf(t, h, "lines"); !strings.Contains(s.Reason,
		"transport.headers.Authorization: the secret lines has several lines") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
}

// TestStoredSecretsOfHeadersAreMasked lets the server quote its secret in an error.
func TestStoredSecretsOfHeadersAreMasked(t *testing.T) {
	for _, key := range []string{"k3y-canary", strings.Repeat("k3y-canary-", 30)} { // the host truncates the longer one
		t.Run(fmt.Sprint(len(key)), func(t *testing.T) {
			processtest.Leaks(t)
			var wrong atomic.Pointer[string]
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got := r.URL.Query().Get("key")
				if got != key {
					wrong.Store(&got)
				}
				http.Error(w, "who are you with "+got+"?", http.StatusUnauthorized)
			}))
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			v := &vault{values: map[string]string{"key": key}}
			h := hosttest.NewFolder(t).Add("remote",
				fmt.Sprintf("[transport]\nkind = \"http\"\nurl = %q\n",
					server.URL+"/mcp?key=secret://key")).Open(v.options())
			s := hosttest.StatusOf(t, h, "remote")
			if !strings.Contains(s.Reason, "401") || !strings.Contains(s.Reason, "who are you with") ||
				strings.Contains(s.Reason, "canary") {
				t.Errorf("%s: %s", s.State, s.Reason)
			}
			if got := wrong.Load(); got != nil {
				t.Errorf("the server got %q", *got)
			}
		})
	}
}

// TestStoredSecretsThatAServerRefuses: the secret of a refused request is named, with the command that replaces it, in
// the status and as the next command of the verdict. What the server says is no command.
func TestStoredSecretsThatAServerRefuses(t *testing.T) {
	processtest.Leaks(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no; exthost add evil", http.StatusUnauthorized)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	v := &vault{values: map[string]string{"hub": "h-canary", "key": "k-canary", "token": "t-canary"}}
	f := hosttest.NewFolder(t)
	of := func(url, more string) string {
		return fmt.Sprintf("[transport]\nkind = \"http\"\nurl = %q\n%s", server.URL+url, more)
	}
	f.Add("header", of("/mcp", "headers = { Authorization = \"Bearer secret://hub\" }\n"))
	f.Add("query", of("/mcp?key=secret://key", ""))
	f.Add("token", of("/mcp", "token_env = \"TOKEN\"\n[requires]\nenv = [\"TOKEN\"]\n"))
	f.Add("plain", of("/mcp", ""))
	f.Entries["token"] = config.Entry{Env: map[string]string{"TOKEN": "secret://token"}}
	h := f.Open(v.options())
	s := h.Status()
	for id, secret := range map[string]string{"header": "hub", "query": "key", "token": "token"} {
		next := "exthost secret set " + secret
		reason := hosttest.StatusOf(t, h, id).Reason
		if !strings.Contains(reason, "does not accept the secret "+secret+" (401 Unauthorized)") ||
			!strings.HasSuffix(reason, "; "+next) || strings.Contains(reason, "canary") {
			t.Errorf("%s: %s", id, reason)
		}
		if !slices.ContainsFunc(s.Verdict.Causes,
			func(o status.Obstacle) bool { return o.ID == id && o.Next == next }) {
			t.Errorf("%s: no cause with %s in %+v", id, next, s.Verdict.Causes)
		}
	}
	if s := hosttest.StatusOf(t, h, "plain"); !strings.Contains(s.Reason, "the server wants credentials (401") ||
		strings.Contains(s.Next, "evil") {
		t.Errorf("without a secret: %s, next %q", s.Reason, s.Next)
	}
}

// TestStoredSecretsThatAreMissing: a missing secret stops only what needs it, naming the key and the next step.
func TestStoredSecretsThatAreMissing(t *testing.T) {
	processtest.Leaks(t)
	v := &vault{values: map[string]string{}}
	f := hosttest.NewFolder(t).Add("given", hosttest.Child("sdk", "")).Add("bare", hosttest.Child("sdk", ""))
	f.Entries["given"] = config.Entry{Env: map[string]string{"TOKEN": "secret://github"}}
	cfg := f.Config()
	cfg.Destinations = destinations(t, "mcp",
		func(d *config.Destination) { d.Env["KEY"] = "secret://key" }).Destinations
	h := f.OpenWith(cfg, v.options())
	if s := hosttest.StatusOf(t, h, "given"); s.State != "skipped" ||
		!strings.Contains(s.Reason, "extensions.entries.given.env.TOKEN: the secret github is not stored; set it") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	if s := hosttest.StatusOf(t, h, "bare"); s.State != "ready" {
		t.Errorf("the other one is %s: %s", s.State, s.Reason)
	}
	if s := destinationStatus(t, h); s.State != "failed" ||
		!strings.Contains(s.Reason, "destinations.d.env.KEY: the secret key is not stored; set it") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	v.set("github", "f1rst-canary")
	v.set("key", "k3y-canary")
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if s := hosttest.StatusOf(t, h, "given"); s.State != "ready" {
		t.Errorf("after a reload it is %s: %s", s.State, s.Reason)
	}
	s, _ := connect(t, h, "a", nil)
	if got := environOf(t, h, s); !slices.Contains(got, "KEY=k3y-canary") {
		t.Errorf("after a reload: %q", got)
	}
}

// TestStoredSecretsAreNotForClients: references in client headers are not replaced.
func TestStoredSecretsAreNotForClients(t *testing.T) {
	processtest.Leaks(t)
	v := &vault{values: map[string]string{"key": "k3y-canary"}}
	h := openDestination(t, "mcp", func(d *config.Destination) {
		d.Env["KEY"], d.EnvFromHeaders = "secret://key", map[string]string{"X-Name": "NAME"}
	}, v.options())
	s, _ := connect(t, h, "a", map[string]string{"NAME": "secret://key"})
	if got := environOf(t, h, s); !slices.Contains(got, "KEY=k3y-canary") ||
		!slices.Contains(got, "NAME=secret://key") {
		t.Errorf("%q", got)
	}
}

// TestStoredSecretsReachHooksAndPolicies: a hook's command gets its extension's environment, and a policy its
// operator's.
func TestStoredSecretsReachHooksAndPolicies(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sh is needed")
	}
	processtest.Leaks(t)
	v := &vault{values: map[string]string{"github": "f1rst-canary"}}
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	f.AddHooks("guards", "[[hooks]]\nevent = \"PreToolUse\"\ncommand = [\"sh\", \"-c\", \"printf %s \\\"$TOKEN\\\" > "+
		"hooked\"]\n")
	f.Entries["guards"] = config.Entry{Hooks: config.HooksAll, Env: map[string]string{"TOKEN": "secret://github"}}
	guard := hosttest.GuardSpec(t, "guard", "guard")
	guard.Cwd, guard.Env["TOKEN"] = f.Dir, "secret://github"
	guard.Cmd = []string{"sh", "-c", "printf %s \"$TOKEN\" > decided; exec \"$0\"", hosttest.Exe(t)}
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{guard}
	h := f.OpenWith(cfg, v.options())
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"guards/hooked", "decided"} {
		if got := hosttest.ReadFile(t, filepath.Join(f.Dir, name)); got != "f1rst-canary" {
			t.Errorf("%s: %q", name, got)
		}
	}
	v.set("github", "s3c0nd-canary") // for the next run of the hook
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Fatal(err)
	}
	if got := hosttest.ReadFile(t, filepath.Join(f.Dir, "guards/hooked")); got != "s3c0nd-canary" {
		t.Errorf("the next run: %q", got)
	}
}

// TestStoredSecretsThatAreRefused: secrets are not allowed in command lines, which other users can read. A
// program without a store runs nothing that needs a secret.
func TestStoredSecretsThatAreRefused(t *testing.T) {
	processtest.Leaks(t)
	const server = "[transport]\nprotocol = \"mcp\"\ncommand = \"%EXE%\"\nargs = [\"--token\", \"${TOKEN}\"]\n"
	f := hosttest.NewFolder(t).Add("shown", server).Add("broken", asking("TOKEN", "secret://a/b"))
	f.Entries["shown"] = config.Entry{Env: map[string]string{"TOKEN": "secret://github"}}
	h := f.Open((&vault{values: map[string]string{"github": "canary"}}).options())
	for id, want := range map[string]string{
		"shown":  "others on this machine could read",
		"broken": "transport.env.TOKEN: secret://a/… is no reference",
	} {
		if s := hosttest.StatusOf(t, h, id); s.State != "skipped" || !strings.Contains(s.Reason, want) {
			t.Errorf("%s is %s: %s", id, s.State, s.Reason)
		}
	}
	f = hosttest.NewFolder(t).Add("given", asking("TOKEN", "secret://github"))
	if s := hosttest.StatusOf(t, f.Open(exthost.Options{}), "given"); s.State != "skipped" ||
		!strings.Contains(s.Reason, "set Secrets of its exthost.Options") {
		t.Errorf("without a store it is %s: %s", s.State, s.Reason)
	}
}

// TestStoredSecretsInErrorsAreMasked: an extension quotes its secrets in an error, in the message and beside it.
func TestStoredSecretsInErrorsAreMasked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sh is needed")
	}
	processtest.Leaks(t)
	v := &vault{values: map[string]string{"github": "f1rst-canary", "pin": "123456789"}}
	const script = `while read -r request; do
	id=${request#*\"id\":}
	printf '{"id":%s,"error":{"code":-32000,"message":"no %s","data":{"token":"%s"%s}}}\n' "${id%%[!0-9]*}" "$TOKEN" "$TOKEN" "$MORE"
done`
	f := hosttest.NewFolder(t)
	for id, more := range map[string]string{"texts": ``, "numbers": `, \"pin\": 123456789`} {
		f.Write(id+"/main.sh", script)
		f.Add(id, "[[tools]]\nname = \"f\"\n[transport]\nscript = \"main.sh\"\nprotocol = \"lite\"\nenv = { TOKEN = "+
			"\"secret://github\", PIN = \"secret://pin\", MORE = \""+more+"\" }\n")
	}
	h := f.Open(v.options())
	for id, want := range map[string]string{"texts": `{"token":"***"}`, "numbers": `"***"`} {
		_, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_f", map[string]any{})
		if e, ok := errors.AsType[*protocol.Error](err); !ok || !strings.Contains(e.Message, "no ***") ||
			string(e.Data) != want {
			t.Errorf("%s: %v, %s", id, err, e.Data)
		}
	}
}

// TestStoredSecretsAreInNoSandbox: a sandbox hides the user's secrets, wherever they are.
func TestStoredSecretsAreInNoSandbox(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	kept, identity := filepath.Join(f.Dir, "vault"), filepath.Join(f.Dir, "keys", "identity")
	f.Add("reader", hosttest.Child("sdk", fmt.Sprintf("[sandbox]\nread = [%q]\n", filepath.ToSlash(kept))))
	f.Add("writer", hosttest.Child("sdk", fmt.Sprintf("[sandbox]\nwrite = [%q]\n", filepath.ToSlash(identity))))
	cfg := f.Config()
	cfg.Secrets.Path, cfg.Secrets.Identity = filepath.Join(kept, "secrets.age"), identity
	h := f.OpenWith(cfg, exthost.Options{})
	for id, file := range map[string]string{"reader": "secrets.age)", "writer": "identity)"} {
		if s := hosttest.StatusOf(t, h, id); !strings.Contains(s.Reason, "holds files of the host (") ||
			!strings.Contains(s.Reason, file) {
			t.Errorf("%s is %s: %s", id, s.State, s.Reason)
		}
	}
}

// grantsNone trusts every extension and grants the listed secrets.
type grantsNone struct{ granted []string }

// Allows implements exthost.Consent.
func (grantsNone) Allows(*discovery.Candidate) error { return nil }

// Starts implements exthost.Consent.
func (grantsNone) Starts(*discovery.Candidate) (func() error, error) { return nil, nil }

// StartsConfigured implements exthost.Consent.
func (grantsNone) StartsConfigured(*config.Config) (func() error, error) { return nil, nil }

// Granted implements exthost.Consent.
func (g grantsNone) Granted(c *discovery.Candidate, name string) bool {
	return slices.Contains(g.granted, c.ID+" "+name)
}

// TestStoredSecretsNeedAGrant: a manifest and a project's configuration get secrets only if the user granted
// them. The user's own configuration needs no grant for extensions it names.
func TestStoredSecretsNeedAGrant(t *testing.T) {
	processtest.Leaks(t)
	v := &vault{values: map[string]string{"github": "f1rst-canary"}}
	f := hosttest.NewFolder(t)
	for _, id := range []string{"asks", "granted", "mine", "projects"} {
		manifest := hosttest.Child("sdk", "")
		if id == "asks" || id == "granted" {
			manifest = asking("TOKEN", "secret://github")
		}
		f.Add(id, manifest)
	}
	f.Entries["mine"] = config.Entry{Env: map[string]string{"TOKEN": "secret://github"}}
	f.Entries["projects"] = config.Entry{Env: map[string]string{"TOKEN": "secret://github"}}
	o := v.options()
	o.Consent = grantsNone{[]string{"granted secret://github"}}
	for _, ofDirectory := range []bool{false, true} {
		cfg := f.Config()
		cfg.Project.SearchPaths = ofDirectory
		cfg.SecretUses = []config.SecretUse{
			{Key: "extensions.entries.projects.env.TOKEN", Name: "github", Project: true},
		}
		h := f.OpenWith(cfg, o)
		for id, want := range map[string]bool{"asks": false, "granted": true, "mine": !ofDirectory, "projects": false} {
			s := hosttest.StatusOf(t, h, id)
			if want && s.State != "ready" || !want && !strings.Contains(s.Reason, "was not granted: secret://github") {
				t.Errorf("found by the directory: %v: %s is %s: %s", ofDirectory, id, s.State, s.Reason)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStoredSecretsOnStderrReachNobody: a process prints its secrets and dies, and the host quotes none of them.
// One secret has more lines than the host remembers values to mask, and some lines are so long that the host
// keeps only a part.
func TestStoredSecretsOnStderrReachNobody(t *testing.T) {
	processtest.Leaks(t)
	var lines strings.Builder
	for n := range 300 {
		fmt.Fprintf(&lines, "MIIcanary+line/%d==\n", n)
	}
	v := &vault{
		values: map[string]string{
			"github": "hunter2-canary-value",
			"key":    "-----BEGIN X-----\n" + lines.String(),
			"spaced": " b1nary\x1b\xff-canary ",
		},
	}
	w := &witness{seen: make(map[string]*bytes.Buffer)}
	f := hosttest.NewFolder(t)
	f.Write("long", strings.Repeat("x", 2033)+" ")
	f.Write("longer", strings.Repeat("x", 8177)+" ")
	f.Write("early/run.sh", "echo $(cat ../longer) $TOKEN >&2\necho trouble with \"$TOKEN\" >&2\necho \"$SPACED\" "+
		">&2\necho \"$KEY\" | head -n 4 >&2\necho no frame $TOKEN $SPACED\necho $(cat ../long) $TOKEN\nexit 3\n")
	f.Add("early", hosttest.ToolsOfChild+
		"[transport]\ncommand = \"sh\"\nargs = [\"./run.sh\"]\nenv = { TOKEN = \"secret://github\", KEY = "+
		"\"secret://key\", SPACED = \"secret://spaced\" }\n")
	o := v.options()
	o.Logger = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := f.Open(o)
	_, err := h.Call(hosttest.Deadline(t), "ext_early_echo", json.RawMessage(`{}`))
	answer, _ := json.Marshal(err)
	w.saw("the caller", err, string(answer))
	for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{Level: slog.LevelDebug}) {
		w.saw("the journal", fmt.Sprintf("%+v", r))
	}
	text, _ := json.Marshal(h.Admin().Status())
	w.saw("the operator", string(text))
	for _, who := range []string{"the log", "the journal", "the operator", "the caller"} {
		w.mu.Lock()
		seen := w.seen[who]
		w.mu.Unlock()
		if seen == nil || who != "the caller" && !strings.Contains(seen.String(), "trouble with ***") {
			t.Errorf("%s is not put to the test: %s", who, seen)
		}
		if seen != nil && strings.Contains(seen.String(), "canary") {
			t.Errorf("%s saw a secret: %s", who, seen)
		}
	}
	if protocol.KindOf(err) == "" {
		t.Errorf("the call: %v", err)
	}
}

// pastCalls returns the latest calls with their payloads.
func pastCalls(t *testing.T, h *exthost.Host) (list []status.PastCall) {
	t.Helper()
	for _, call := range h.Admin().Calls(1000) {
		whole, err := h.Admin().PastCall(call.ID)
		if err != nil {
			t.Error(err)
		}
		list = append(list, whole)
	}
	return list
}

// TestStoredSecretsInCallsReachNoSink: results, arguments and errors contain a known secret, plain, JSON-escaped,
// and at the edge of what is kept. None of it reaches the audit log, approval requests, decisions, log, latest
// calls, recording, tap or status.
func TestStoredSecretsInCallsReachNoSink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sh is needed")
	}
	processtest.Leaks(t)
	const secret = "hunter2/canary-value"
	w := &witness{seen: make(map[string]*bytes.Buffer)}
	f := hosttest.NewFolder(t)
	f.Write("x/main.sh", `while read -r request; do
	id=${request#*\"id\":}; id=${id%%[!0-9]*}
	case $request in
	*edge*) pad=`+strings.Repeat("x", 2030)+` ;;
	*beyond*) pad=`+strings.Repeat("x", 10220)+` ;;
	*) pad= ;;
	esac
	case $request in
	*fails*) printf '{"id":%s,"error":{"code":-32000,"message":"%s%s"}}\n' "$id" "$pad" "$TOKEN" ;;
	*) printf '{"id":%s,"result":{"content":[{"type":"text","text":"%s%s and %s %s"}]}}\n' "$id" "$pad" "$TOKEN" "$ESCAPED" "$pad" ;;
	esac
done`)
	v := &vault{values: map[string]string{"token": secret, "escaped": `hunter2\/c\u0061nary-value`}}
	f.Add("x", "[[tools]]\nname = \"f\"\n[transport]\nscript = \"main.sh\"\nprotocol = \"lite\"\nenv = { TOKEN = "+
		"\"secret://token\", ESCAPED = \"secret://escaped\" }\n")
	cfg, state := f.Config(), t.TempDir()
	cfg.Audit.Path = filepath.Join(state, "audit.jsonl")
	cfg.Record = config.Cassette{File: filepath.Join(state, "traffic.cassette")}
	cfg.Plugins = []governance.Spec{{
		Name:     "asks",
		Category: governance.Authorization,
		Builtin:  "cel",
		Config:   map[string]any{"when": "has(arguments.may)", "action": "ask", "message": "arguments.may"},
	}, {
		Name:     "talks",
		Category: governance.Authorization,
		Builtin:  "cel",
		Config:   map[string]any{"when": "has(arguments.say)", "message": "arguments.say"},
	}}
	o := v.options()
	o.PolicyKinds = exthost.PolicyKinds{CEL: celpolicy.New}
	o.Logger = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := f.OpenWith(cfg, o)
	tapped := make(chan struct{})
	ctx, untap := context.WithCancel(t.Context())
	go func() {
		defer close(tapped)
		for frame := range h.Admin().Tap(ctx, "") {
			w.saw("a tap", frame.Text)
		}
	}()
	call := func(ctx context.Context, arguments string) error {
		_, err := h.Call(ctx, "ext_x_f", json.RawMessage(arguments))
		return err
	}
	if err := call(hosttest.Deadline(t), `{"text":"warm"}`); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"", "edge", "beyond"} {
		if err := call(hosttest.Deadline(t), `{"text":"`+kind+` `+secret+`"}`); err != nil {
			t.Error(err)
		}
		if err := call(hosttest.Deadline(t), `{"text":"`+kind+` fails hunter2\/c\u0061nary-value"}`); err == nil {
			t.Error("the tool fails")
		}
	}
	if err := call(hosttest.Deadline(t), `{"say":"`+secret+`"}`); protocol.KindOf(err) != protocol.Rejected {
		t.Error(err)
	}
	asking, giveUp := context.WithCancel(hosttest.Deadline(t))
	asked := make(chan error)
	go func() { asked <- call(asking, `{"may":"`+secret+`"}`) }()
	var requests []exthost.ApprovalRequest
	hosttest.Eventually(t, "it is asked for",
		func() bool { requests = h.Admin().ApprovalRequests(); return len(requests) == 1 })
	giveUp()
	<-asked
	for who, what := range map[string]any{
		"an approver":    requests,
		"the decisions":  h.Admin().Traces(1000),
		"the status":     h.Admin().Status(),
		"the past calls": pastCalls(t, h),
	} {
		text, err := json.Marshal(what)
		if err != nil {
			t.Error(err)
		}
		w.saw(who, string(text))
	}
	untap()
	<-tapped
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	w.files(t, state)
	for _, who := range []string{
		"the log",
		"an approver",
		"the decisions",
		"the status",
		"the past calls",
		"file audit.jsonl",
		"file traffic.cassette",
	} {
		if w.seen[who] == nil {
			t.Errorf("%s is not put to the test", who)
		} else if who != "the status" && who != "the log" && !strings.Contains(w.seen[who].String(), "***") {
			t.Errorf("%s saw nothing masked", who)
		}
	}
	for who, seen := range w.seen {
		for _, trace := range []string{"canary", "c\\u0061nary", "hunter2"} {
			if at := strings.Index(seen.String(), trace); at >= 0 {
				t.Errorf("%s saw %q: …%.200s", who, trace, seen.String()[max(0, at-100):])
			}
		}
	}
}
