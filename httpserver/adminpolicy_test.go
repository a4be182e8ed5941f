package httpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// governedServer serves the API to an operator named Ada. The policies deny one tool, ask about another, and pin all.
func governedServer(t *testing.T) (*httptest.Server, *exthost.Host) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "extensions", "kit"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := "[plugin]\nid = \"kit\"\nversion = \"0.1.0\"\n[transport]\nkind = \"exec\"\ncommand = \"true\"\n"
	for _, name := range []string{`"say"`, `"rm"`, `"ask"`} {
		manifest += "[[tools]]\nname = " + name + "\ndescription = \"It.\"\ncommand = [\"cat\"]\n"
	}
	write("extensions/kit/plugin.toml", manifest+"[risk]\nrm = \"destroy\"\n")
	write("exthost.yaml", `audit: {path: audit.jsonl}
plugins:
  - {name: rm, category: authorization, builtin: access, config: {rules: [{effect: deny, tools: ["*_rm"]}]}}
  - {name: ask, category: authorization, builtin: approval, match: {tools: ["*_ask"]}}
  - {name: pins, category: authorization, builtin: pin}
`)
	cfg, err := config.Load(config.LoadOptions{Dir: dir, UserDir: "none", SystemDir: "none", Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := exthost.Open(t.Context(), cfg,
		exthost.Options{StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	admin := Admin(h, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admin.ServeHTTP(w, r.WithContext(WithOperator(r.Context(), "Ada")))
	}))
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s, h
}

func TestPolicyAPI(t *testing.T) {
	s, _ := governedServer(t)
	var list struct {
		Policies []status.Policy
		Audit    *status.Audit
	}
	if code := askAdmin(t, s, "GET", "/api/v1/policies", "", &list); code != http.StatusOK || len(list.Policies) != 4 ||
		list.Audit == nil {
		t.Errorf("policies: %d %+v", code, list)
	}
	var tested TestResult
	if code := askAdmin(t, s, "POST", "/api/v1/policies/test", `{"tool":"ext_kit_rm","caller":"bob"}`,
		&tested); code != http.StatusOK ||
		tested.Trace.Caller != "bob" || tested.Error == nil || tested.Error.Kind != protocol.Rejected {
		t.Errorf("test: %d %+v", code, tested)
	}
	for _, call := range []string{
		`{}`,
		`[]`,
		`{"tool":"ext_kit_rm","method":"x"}`,
		`{"tool":"t","colour":1}`,
		`{"method":"x","arguments":{}}`,
	} {
		if code := askAdmin(t, s, "POST", "/api/v1/policies/test", call, nil); code != http.StatusBadRequest {
			t.Errorf("test %s: %d", call, code)
		}
	}
	if code := askAdmin(t, s, "POST", "/api/v1/policies/test", `{"tool":"ext_kit_none"}`,
		nil); code != http.StatusNotFound {
		t.Errorf("test of no tool: %d", code)
	}

	askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_say/call", `{}`, nil)
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_rm/call", `{}`, nil); code != http.StatusForbidden {
		t.Errorf("a denied call: %d", code)
	}
	var decisions struct{ Decisions []exthost.Trace }
	if code := askAdmin(t, s, "GET", "/api/v1/decisions?last=1", "", &decisions); code != http.StatusOK ||
		len(decisions.Decisions) != 1 || decisions.Decisions[0].Verdict.Policy != "rm" {
		t.Errorf("decisions: %d %+v", code, decisions)
	}
	var one exthost.Trace
	if code := askAdmin(t, s, "GET", "/api/v1/decisions/"+decisions.Decisions[0].ID, "", &one); code != http.StatusOK ||
		cmp.Diff(decisions.Decisions[0], one) != "" {
		t.Errorf("decision: %d %+v", code, one)
	}
	for path, want := range map[string]int{
		"/api/v1/decisions/none":   http.StatusNotFound,
		"/api/v1/decisions?last=x": http.StatusBadRequest,
	} {
		if code := askAdmin(t, s, "GET", path, "", nil); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	var pins struct{ Pins []status.Pin }
	if code := askAdmin(t, s, "GET", "/api/v1/pins", "", &pins); code != http.StatusOK || len(pins.Pins) != 3 ||
		pins.Pins[0].Held {
		t.Errorf("pins: %d %+v", code, pins)
	}
	for _, path := range []string{"kit", "kit/say", "none", "kit/none"} {
		for body, want := range map[string]int{
			"":                   http.StatusNotFound,
			`{"digests": ["x"]}`: http.StatusNotFound,
			`{"digest": ["x"]}`:  http.StatusBadRequest,
		} {
			if code := askAdmin(t, s, "POST", "/api/v1/pins/"+path+"/approve", body, nil); code != want {
				t.Errorf("nothing to approve of %s by %q: %d", path, body, code)
			}
		}
	}
}

// A policy decides about the calls that were made, by its name or by an entry that is in no file yet. Nothing is
// called, asked or recorded.
func TestRehearsal(t *testing.T) {
	s, h := governedServer(t)
	for _, tool := range []string{"say", "rm", "say"} {
		askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_"+tool+"/call", `{"mail":"ada@example.org"}`, nil)
	}
	before := h.Admin().Measures()
	traces, audit := len(h.Admin().Traces(100)), h.Status().Audit.Path
	var written []byte
	var err error
	eventually(t, func() bool { // the outcome is written after the answer
		written, err = os.ReadFile(audit)
		return err == nil && strings.Count(string(written), `"outcome":`) == 3
	})
	rehearse := func(body map[string]any) (r status.Rehearsal, code int, failed Fault) {
		t.Helper()
		data, _ := json.Marshal(body)
		var text string
		code = askAdmin(t, s, "POST", "/api/v1/policies/rehearse", string(data), &text)
		if code == http.StatusOK {
			err = json.Unmarshal([]byte(text), &r)
		} else {
			failure := failure{}
			err = json.Unmarshal([]byte(text), &failure)
			failed = failure.Error
		}
		if err != nil {
			t.Fatal(err)
		}
		return r, code, failed
	}
	entry := func(category, rest string) string {
		return "- {name: mine, category: " + category + ", mode: shadow, builtin: " + rest + "}"
	}
	for name, tt := range map[string]struct {
		body                          map[string]any
		calls, denied, changed, asked int
		reason                        string
	}{
		"by its name":   {map[string]any{"policy": "rm"}, 3, 1, 0, 0, "may not use ext_kit_rm"},
		"the last call": {map[string]any{"policy": "rm", "last": 1}, 1, 0, 0, 0, ""},
		"a policy that asks": {map[string]any{"entry": entry("authorization", `approval, match: {tools: ["*_say"]}`)}, 3, 0,
			0, 2, ""},
		"a policy that asks by risk": {map[string]any{
			"entry": entry("authorization", `approval, match: {risk: [destroy]}`),
		}, 3, 0, 0, 1, ""},
		"params and results": {map[string]any{"entry": entry("content", `redact`)}, 3, 0, 3, 0, ""},
		"a policy that counts": {map[string]any{"entry": entry("rate_limiting",
			"rate_limit, config: {limits: [{calls: 1, window: 1h}]}")}, 3, 2, 0, 0, "at most 1 call an hour"},
	} {
		r, code, failed := rehearse(tt.body)
		if code != http.StatusOK || r.Calls != tt.calls || r.Denied != tt.denied || r.Changed != tt.changed ||
			r.Asked != tt.asked || r.Failed+r.Left+r.Skipped != 0 {
			t.Errorf("%s: %d %+v %+v", name, code, r, failed)
		}
		for _, d := range r.Otherwise {
			if !strings.Contains(d.Reason, tt.reason) || d.ID == 0 || d.Time.IsZero() {
				t.Errorf("%s: %+v", name, d)
			}
			if d.Changed != nil && strings.Contains(d.Changed.Text, "ada@example.org") {
				t.Errorf("%s: what is masked is shown: %s", name, d.Changed.Text)
			}
		}
	}
	cassette := []map[string]any{
		{"id": 7, "time": "2030-01-01T00:00:00Z", "extension": "kit", "sent": json.RawMessage(
			`{"id":1,"method":"tools/call","params":{"name":"rm","arguments":{}}}`), "received": json.RawMessage(
			`{"id":1,"result":{"content":[]}}`)},
		{"id": 8, "time": "2030-01-01T01:00:00Z", "extension": "kit", "sent": json.RawMessage(
			`{"id":2,"method":"tools/call","params":{"name":"say"}}`)},
	}
	if r, code, failed := rehearse(map[string]any{"policy": "rm", "calls": cassette}); code != http.StatusOK ||
		r.Calls != 2 || r.Denied != 1 || r.Otherwise[0].ID != 7 || r.Otherwise[0].Tool != "ext_kit_rm" {
		t.Errorf("calls of a cassette: %d %+v %+v", code, r, failed)
	}
	for name, tt := range map[string]struct {
		body map[string]any
		code int
		text string
	}{
		"no call": {map[string]any{"policy": "rm", "calls": []any{map[string]any{"id": 3, "sent": "x"}}},
			http.StatusBadRequest, "call 3 is no request"},
		"a name that there is not": {map[string]any{"policy": "rn"}, http.StatusNotFound, `did you mean "rm"`},
		"neither":                  {map[string]any{}, http.StatusBadRequest, "is needed"},
		"both":                     {map[string]any{"policy": "rm", "entry": "x"}, http.StatusBadRequest, "is needed"},
		"no entry":                 {map[string]any{"entry": "x"}, http.StatusBadRequest, "want one entry of plugins"},
		"an odd key": {map[string]any{"entry": "{name: x, category: content, buitlin: redact}"},
			http.StatusBadRequest, "builtin"},
		"a program": {map[string]any{"entry": "{name: x, category: content, cmd: [touch, here]}"},
			http.StatusBadRequest, "runs a program"},
		"an odd config": {map[string]any{"entry": "{name: x, category: authorization, builtin: access, config: {rule: []}}"},
			http.StatusBadRequest, "rule"},
		"pins":          {map[string]any{"policy": "pins"}, http.StatusBadRequest, "exthost policy pins"},
		"the audit log": {map[string]any{"policy": "audit_log"}, http.StatusBadRequest, "decides about nothing"},
	} {
		if r, code, failed := rehearse(tt.body); code != tt.code || !strings.Contains(failed.Message, tt.text) {
			t.Errorf("%s: %d %+v %+v", name, code, failed, r)
		}
	}
	after := h.Admin().Measures()
	if got := h.Admin().Calls(100); len(got) != 3 || len(h.Admin().ApprovalRequests()) != 0 ||
		len(h.Admin().Traces(100)) != traces || cmp.Diff(before.Policies, after.Policies) != "" {
		t.Errorf("the rehearsals have left traces: %d calls, %d decisions", len(got), len(h.Admin().Traces(100)))
	}
	if now, err := os.ReadFile(audit); err != nil || string(now) != string(written) {
		t.Errorf("the audit log has records of rehearsals: %v", err)
	}
}

// The middleware sets the approver, and an approval request can be answered once.
func TestApprovalAPI(t *testing.T) {
	s, h := governedServer(t)
	for answer, want := range map[string]string{"approve": "", "deny": "not approved by Ada: no"} {
		called := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := h.Call(ctx, "ext_kit_ask", json.RawMessage(`{}`))
			called <- err
		}()
		eventually(t, func() bool { return len(h.Admin().ApprovalRequests()) > 0 })
		var list struct{ Approvals []exthost.ApprovalRequest }
		if code := askAdmin(t, s, "GET", "/api/v1/approvals", "", &list); code != http.StatusOK ||
			len(list.Approvals) != 1 || list.Approvals[0].Tool != "ext_kit_ask" {
			t.Fatalf("approvals: %d %+v", code, list)
		}
		path := "/api/v1/approvals/" + list.Approvals[0].ID + "/" + answer
		if code := askAdmin(t, s, "POST", path, `{"reason":"no"}`, nil); code != http.StatusNoContent {
			t.Errorf("%s: %d", answer, code)
		}
		if err := get(t, called, "the call"); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", answer, err)
		}
		if code := askAdmin(t, s, "POST", path, "", nil); code != http.StatusNotFound {
			t.Errorf("%s again: %d", answer, code)
		}
	}
	if code := askAdmin(t, s, "POST", "/api/v1/approvals/none/deny", `{`, nil); code != http.StatusBadRequest {
		t.Errorf("a body that is no JSON: %d", code)
	}
}
