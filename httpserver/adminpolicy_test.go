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
	write("extensions/kit/plugin.toml", manifest)
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
