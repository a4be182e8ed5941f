package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
)

// scrape returns the lines of /metrics by name and labels.
func scrape(t *testing.T, h *exthost.Host) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	Metrics(h).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	lines := make(map[string]string)
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok {
			lines[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			lines[name] = value
		}
	}
	return lines
}

// weekday denies what is called die, as a shadow what is called say.
type weekday struct{}

func (weekday) Decide(_ context.Context, _ governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if strings.HasSuffix(x.Tool, "_fail") {
		return governance.Decision{Action: governance.Deny, Code: fmt.Sprintf("user %p", x)}, nil
	}
	return governance.Decision{}, nil
}

func TestMetrics(t *testing.T) {
	h := openKit(t, exthost.Options{
		Policies: []governance.Member{
			{Spec: governance.Spec{Name: "weekday", Category: governance.Authorization, Required: true, Flows: []governance.Flow{governance.Request}}, Policy: weekday{}},
			{Spec: governance.Spec{Name: "trial", Category: governance.Validation, Mode: governance.ModeShadow}, Policy: weekday{}},
		},
		Hooks: []hooks.Handler{{Name: "watch", Point: hooks.AfterToolCall, Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) { return nil, nil }}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e := range h.Admin().Events(ctx) {
		if e.Kind == exthost.EventApprovals { // listening has begun
			for _, tool := range []string{"say", "say", "grumble", "die", "fail", "not_there"} {
				_, _ = h.Call(ctx, "ext_kit_"+tool, map[string]int{"n": 1})
			}
			break
		}
	}
	got := scrape(t, h)
	for line, want := range map[string]string{
		`exthost_calls_total{extension="kit",outcome="ok",tool="ext_kit_say"}`:                  "2",
		`exthost_calls_total{extension="kit",outcome="child_exited",tool="ext_kit_die"}`:        "1",
		`exthost_calls_total{extension="kit",outcome="extension_error",tool="ext_kit_grumble"}`: "1",
		`exthost_calls_total{extension="kit",outcome="rejected",tool="ext_kit_fail"}`:           "1",
		`exthost_calls_total{extension="",outcome="tool_not_found",tool=""}`:                    "1",
		`exthost_call_duration_seconds_count{extension="kit"}`:                                  "4",
		`exthost_call_duration_seconds_bucket{extension="kit",le="+Inf"}`:                       "4",
		`exthost_call_duration_seconds_bucket{extension="kit",le="134.217728"}`:                 "4",
		`exthost_extension_state{extension="kit",state="ready"}`:                                "1",
		`exthost_extension_state{extension="kit",state="failed"}`:                               "0",
		`exthost_extension_state{extension="lost",state="skipped"}`:                             "1",
		`exthost_calls_in_flight{extension="kit"}`:                                              "0",
		`exthost_tools{extension="kit"}`:                                                        "4",
		`exthost_breakers{extension="kit",state="closed"}`:                                      "1",
		`exthost_sessions`:        "0",
		`exthost_event_listeners`: "0",
		`exthost_hook_runs_total{extension="",outcome="continue",point="after_tool_call"}`:                                                                      "2",
		`exthost_hook_duration_seconds_count{point="after_tool_call"}`:                                                                                          "2",
		`exthost_policy_duration_seconds_count{flow="request",policy="weekday"}`:                                                                                "5",
		`exthost_policy_duration_seconds_count{flow="request",policy="trial"}`:                                                                                  "4",
		`exthost_policy_decisions_total{action="deny",category="authorization",code="other",flow="request",mode="enforce",outcome="rejected",policy="weekday"}`: "1",
		`exthost_policy_decisions_total{action="allow",category="authorization",code="",flow="request",mode="enforce",outcome="continue",policy="weekday"}`:     "4",
		`exthost_policy_decisions_total{action="allow",category="validation",code="",flow="request",mode="shadow",outcome="continue",policy="trial"}`:           "4",
		`exthost_payload_bytes_total{direction="sent",extension="kit"}`:                                                                                         fmt.Sprint(2*len(`{"name":"say","arguments":{"n":1}}`) + len(`{"name":"grumble","arguments":{"n":1}}`) + len(`{"name":"die","arguments":{"n":1}}`)),
	} {
		if got[line] != want {
			t.Errorf("%s %q, want %s", line, got[line], want)
		}
	}
	for name, value := range got {
		if strings.HasPrefix(name, "exthost_") && strings.Contains(name, "not_there") {
			t.Errorf("a caller made up the label of %s %s", name, value)
		}
	}
	problems, err := testutil.CollectAndLint(collector{h})
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(collector{h}); err != nil {
		t.Error(err)
	}
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
}

// What the status tells of policies is the same count.
func TestPolicyCounts(t *testing.T) {
	h := openKit(t, exthost.Options{Policies: []governance.Member{{Spec: governance.Spec{Name: "weekday", Category: governance.Authorization, Required: true}, Policy: weekday{}}}})
	for _, tool := range []string{"say", "fail"} {
		_, _ = h.Call(t.Context(), "ext_kit_"+tool, map[string]int{"n": 1})
	}
	p := h.Status().Policies[0]
	if p.Decisions != 3 || p.Rejections != 1 || p.Errors != 0 || p.Latency == nil {
		t.Errorf("%+v", p)
	}
}

// kit is an exec extension with tools that end in every way.
const kit = `[plugin]
id = "kit"
version = "0.1.0"
[transport]
kind = "exec"
command = "true"
[[tools]]
name = "say"
description = "Says it."
command = ["sh", "-c", "echo careful >&2; cat"]
[[tools]]
name = "die"
description = "Dies."
command = ["sh", "-c", "echo 'last words' >&2; kill -9 $$"]
[[tools]]
name = "grumble"
description = "Fails."
command = ["sh", "-c", "echo no >&2; exit 1"]
[[tools]]
name = "fail"
description = "Is denied."
command = ["true"]
`

// openKit opens a host over kit, and an extension that lacks something.
func openKit(t *testing.T, o exthost.Options) *exthost.Host {
	t.Helper()
	dir := t.TempDir()
	lost := "[plugin]\nid = \"lost\"\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"x\"]\n[transport]\ncommand = \"./lost\"\n[requires]\nbins = [\"no-such-program\"]\n"
	for id, manifest := range map[string]string{"kit": kit, "lost": lost} {
		if err := os.MkdirAll(filepath.Join(dir, id), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, id, "plugin.toml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	o.StateDir, o.Logger = t.TempDir(), slog.New(slog.DiscardHandler)
	h, err := exthost.Open(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}
