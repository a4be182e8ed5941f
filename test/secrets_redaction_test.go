package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// planted are secrets of each kind, concatenated so that none appears in a file.
var planted = map[string]string{
	"aws":    "AKIA" + "Z7QK3MPLW2RT5XVB",
	"github": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
	"key": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7bq6wXo3kQ\n" +
		strings.Repeat("Zm9vYmFyYmF6cXV4/+aA\n", 40) + "-----END RSA PRIVATE KEY-----",
	"email": "jane.doe+test" + "@example.co.uk",
	"card":  "4111 1111" + " 1111 1111",
}

// plantedTraces are texts that must not remain of them.
var plantedTraces = []string{
	"Z7QK3MPLW2RT5XVB",
	"16C7e42F292c6912",
	"MIIEpAIBAAKCAQEA7bq6wXo3kQ",
	"Zm9vYmFyYmF6cXV4",
	"jane.doe+test",
	"4111 1111",
	"1111 1111",
}

func plantedText() string {
	return fmt.Sprintf("key %s token %s mail %s card %s\n%s\n", planted["aws"], planted["github"], planted["email"],
		planted["card"], planted["key"])
}

// leakyExtension logs what it receives and returns what it knows.
func leakyExtension() *sdk.Extension {
	x := sdk.New("1.0.0")
	note := func(in json.RawMessage) { appendState("journal", string(in)) }
	anything := json.RawMessage(`{"type":"object"}`)
	sdk.AddTool(x, sdk.Tool{Name: "store", InputSchema: anything},
		func(_ context.Context, in json.RawMessage) (string, error) {
			note(in)
			return "stored " + string(in), nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "dump", InputSchema: anything},
		func(context.Context, json.RawMessage) (protocol.ToolResult, error) {
			filler := strings.Repeat("nothing to see here, move along \n", 6300) // a fifth of a MiB
			text := plantedText()
			for range 5 {
				text += filler + plantedText()
			}
			return protocol.ToolResult(
				fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"structuredContent":{"rows":[%s]}}`, asJSON(text),
					asJSON(plantedText()))), nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "fail", InputSchema: anything},
		func(context.Context, json.RawMessage) (string, error) {
			return "", errors.New(plantedText())
		})
	sdk.AddTool(x, sdk.Tool{Name: "refuse", InputSchema: anything},
		func(context.Context, json.RawMessage) (string, error) {
			return "", &sdk.Error{
				Code:    -32050,
				Message: plantedText(),
				Data:    json.RawMessage(`{"why":` + asJSON(plantedText()) + `}`),
			}
		})
	sdk.AddTool(x, sdk.Tool{Name: "chat", InputSchema: anything},
		func(ctx context.Context, _ json.RawMessage) (string, error) {
			sdk.Progress(ctx, 1, 2, plantedText())
			sdk.Log(ctx, slog.LevelInfo, plantedText())
			return "done", nil
		})
	return x
}

func asJSON(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

const leakyCapabilities = "[capabilities]\ntools = [\"store\", \"dump\", \"fail\", \"refuse\", \"chat\"]\n"

// witness collects what each party received.
type witness struct {
	mu   sync.Mutex
	seen map[string]*bytes.Buffer
}

func (w *witness) saw(who string, what ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[who] == nil {
		w.seen[who] = new(bytes.Buffer)
	}
	fmt.Fprintln(w.seen[who], what...)
}

// Write receives a log.
func (w *witness) Write(p []byte) (int, error) {
	w.saw("the log", string(p))
	return len(p), nil
}

// files adds all files below dir.
func (w *witness) files(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(dir, path)
			w.saw("file "+rel, hosttest.ReadFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// clean fails if anything planted was received, also in JSON escapes.
func (w *witness) clean(t *testing.T, who string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.seen[who]
	if b == nil {
		t.Errorf("%s saw nothing at all", who)
		return
	}
	for _, trace := range plantedTraces {
		if i := strings.Index(strings.ReplaceAll(b.String(), `\/`, "/"), trace); i >= 0 {
			t.Errorf("%s saw %q: …%.200s", who, trace, b.String()[max(0, i-100):])
		}
	}
}

// TestSecretsReachNobody plants secrets in arguments, results of 1 MiB, errors and log output of an extension,
// and searches everything that any party receives.
func TestSecretsReachNobody(t *testing.T) {
	processtest.Leaks(t)
	w, state, f := &witness{seen: make(map[string]*bytes.Buffer)}, t.TempDir(), hosttest.NewFolder(t)
	f.Add("x", leakyCapabilities+hosttest.Plays("leaky", "")).AddHooks("h", hooksManifest())
	goHook := func(p hooks.Point) hooks.Handler {
		return hooks.Handler{
			Name:  "go",
			Point: p,
			Run: func(_ context.Context, e *hooks.Event) (*hooks.Reply, error) {
				w.saw("a hook in Go", e.Point, string(e.Payload), string(e.Arguments))
				return nil, nil
			},
		}
	}
	cfg := f.Config()
	cfg.Audit.Path = filepath.Join(state, "audit", "audit.jsonl")
	told := filepath.Join(state, "exec-hook")
	cfg.Hooks = []manifest.HookSpec{shell("PreToolUse", "cat >> "+told), shell("PostToolUse", "cat >> "+told)}
	cfg.Plugins = []governance.Spec{
		{Name: "no-refusals", Category: governance.Authorization, Builtin: "access",
			Config: map[string]any{"rules": []any{map[string]any{"effect": "deny", "tools": []any{"ext_h_*"}}}}},
		{Name: "talks", Category: governance.Authorization, Builtin: "cel",
			Config: map[string]any{"when": "has(arguments.say)", "message": "arguments.say"}},
		{Name: "asks", Category: governance.Authorization, Builtin: "cel",
			Config: map[string]any{
				"when":    "has(arguments.may)",
				"action":  "ask",
				"message": "arguments.may",
				"expiry":  "1ms",
			}},
		{Name: "redact", Category: governance.Content, Builtin: "redact"},
	}
	h := f.OpenWith(cfg, exthost.Options{
		StateDir:    state,
		PolicyKinds: exthost.PolicyKinds{CEL: celpolicy.New},
		Logger:      slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Hooks: []hooks.Handler{
			goHook(hooks.BeforeToolCall),
			goHook(hooks.AfterToolCall),
			goHook(hooks.ToolCallFailed),
		},
	})
	client := hosttest.NewRecorder()
	arguments := asJSON(plantedText())
	escaped := strings.ReplaceAll(arguments, "AKIA", `\u0041KIA`)
	for _, tool := range []string{"store", "dump", "fail", "refuse", "chat"} {
		for _, args := range []string{`{"text":` + arguments + `}`, `{"deep":[{"text":` + escaped + `}]}`} {
			raw, err := h.Do(hosttest.Deadline(t), &protocol.Call{
				Method: protocol.MethodToolsCall,
				Client: client,
				Params: json.RawMessage(`{"name":"ext_x_` + tool + `","arguments":` + args +
					`,"_meta":{"progressToken":7}}`),
			})
			if failed := err != nil; failed != (tool == "refuse") {
				t.Errorf("%s: %v", tool, err)
			}
			e, _ := errors.AsType[*protocol.Error](err)
			w.saw("the caller", string(raw), err)
			if e != nil {
				w.saw("the caller", string(e.Data))
			}
			if tool == "dump" && (len(raw) < 1<<20 || strings.Count(string(raw), "[redacted:private-key]") != 7) {
				t.Errorf("a result of %d bytes with %d masks", len(raw),
					strings.Count(string(raw), "[redacted:private-key]"))
			}
		}
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_h_own",
		json.RawMessage(`{"text":`+arguments+`}`)); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("the denied call: %v", err)
	}
	// A policy repeats its input to the caller too. People are asked last, about masked arguments.
	for key, want := range map[string]string{"say": plantedTraces[0], "may": "[redacted:"} {
		_, err := h.Call(hosttest.Deadline(t), "ext_x_store", json.RawMessage(`{"`+key+`":`+arguments+`}`))
		if protocol.KindOf(err) != protocol.Rejected || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	w.saw("the caller", client.Heard)
	traces, _ := json.Marshal(h.Admin().Traces(1000))
	status, _ := json.Marshal(h.Admin().Status())
	w.saw("the operator", string(traces), string(status))
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	w.files(t, state)
	for who := range w.seen {
		w.clean(t, who)
	}
	for _, who := range []string{
		"the caller",
		"a hook in Go",
		"the operator",
		"file exec-hook",
		"file x/journal",
		"file h/told",
		"file audit/audit.jsonl",
		"the log",
	} {
		w.mu.Lock()
		if w.seen[who] == nil {
			t.Errorf("%s is not put to the test", who)
		} else if who != "the log" && who != "the operator" && !strings.Contains(w.seen[who].String(), "[redacted:") {
			t.Errorf("%s saw nothing masked", who)
		}
		w.mu.Unlock()
	}
}

// Secrets in the headers and the URL of a transport do not get into the status when the server quotes them.
func TestSecretsOfTransportsAreMasked(t *testing.T) {
	processtest.Leaks(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprint("unknown key ", r.URL.Query().Get("api_key"),
			strings.TrimPrefix(r.Header.Get("Proxy-Authorization"), "Basic "),
			strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
			strings.TrimPrefix(r.Header.Get("Cookie"), "sid=")), http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	f := hosttest.NewFolder(t)
	transports := map[string]string{ // by extension; each has its own secret
		"bearer": "headers = { Authorization = \"Bearer %s\" }",
		"plain":  "headers = { authorization = \"%s\" }",
		"basic":  "headers = { Proxy-Authorization = \"Basic %s\" }",
		"cookie": "headers = { Cookie = \"sid=%s\" }",
		"query":  "",
	}
	for id, headers := range transports {
		path, secret := "/mcp", id+"-lit3ral-k3y"
		if headers == "" {
			path += "?api_key=" + secret
		} else {
			headers = fmt.Sprintf(headers, secret)
		}
		f.Add(id, fmt.Sprintf("[transport]\nkind = \"http\"\nurl = %q\n%s\n", server.URL+path, headers))
	}
	h := f.Open(exthost.Options{})
	for id := range transports {
		x := hosttest.StatusOf(t, h, id)
		shown := x.Reason + strings.Join(x.Command, " ")
		if !strings.Contains(shown, "unknown key ***") || strings.Contains(shown, "k3y") {
			t.Errorf("%s: %s, %s", id, x.Command, x.Reason)
		}
	}
	f.Add("argument",
		fmt.Sprintf("[transport]\ncommand = \"true\"\nargs = [\"--api-key=%s\"]\n", planted["github"]))
	f.Add("password", "[transport]\nkind = \"http\"\nurl = \"http://bob:lit3ral-k3y@127.0.0.1:1\"\n")
	f.Add("skipped", fmt.Sprintf("[transport]\ncommand = \"true\"\nargs = [%q]\n"+
		"[requires]\nbins = [\"no-such-program\"]\n", planted["github"]))
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"argument", "password", "skipped"} {
		line := strings.Join(hosttest.StatusOf(t, h, id).Command, " ")
		if line == "" || strings.Contains(line, "k3y") || strings.Contains(line, planted["github"]) {
			t.Errorf("%s: %s", id, line)
		}
	}
}
