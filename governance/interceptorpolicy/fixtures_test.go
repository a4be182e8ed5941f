package interceptorpolicy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// fixturesVar names the variable with a directory of SEP-2624's conformance fixtures.
const fixturesVar = "EXTHOST_INTERCEPTOR_FIXTURES"

// fixture is one case of the conformance suite of SEP-2624, in its own format: interceptors that behave
// in a stated way, and payloads that pass them one after the other.
type fixture struct {
	ID           string
	Interceptors []struct {
		Name, Type, Behavior, Phases, Mode string
		Events                             []string
		FailOpen                           bool
	}
	Steps []step
}

type step struct {
	Op, Event, Phase string
	Payload          json.RawMessage
	Context          struct{ SessionID string }
	Expect           struct {
		Decision          string
		FinalPayload      json.RawMessage
		Forbids, Requires []string
	}
}

// TestFixtures runs the public fixtures against the policy, where they are installed. Those about the
// answers to interceptors/list and interceptor/invoke are about servers, which the policy is a client of;
// they are skipped by name.
func TestFixtures(t *testing.T) {
	dir := os.Getenv(fixturesVar)
	if dir == "" {
		t.Skipf("%s is not set: set it to the directory conformance/fixtures of "+
			"modelcontextprotocol/experimental-ext-interceptors", fixturesVar)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures in %s: %v", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var f fixture
			if err := json.Unmarshal(text, &f); err != nil {
				t.Fatal(err)
			}
			f.run(t)
		})
	}
}

// TestStateful has interceptors that remember what passed: one that keeps a secret from reaching another
// extension than that which it was read from, in the same session, and one that takes secrets out.
func TestStateful(t *testing.T) {
	const guard = `{"name":"guard","type":"validation","behavior":"cross-boundary-guard","events":["tools/call"],"phases":"both"}`
	const redactor = `{"name":"redactor","type":"mutation","behavior":"secretless-redactor","events":["tools/call"],"phases":"request"}`
	const secret = "AKIA" + "ABCDEFGHIJKLMNOP" // one word would look like a real one
	read := `{"op":"apply","event":"tools/call","phase":"request","payload":{"name":"read_file"},"context":{"sessionId":"a"},"expect":{"decision":"allow"}},
		{"op":"apply","event":"tools/call","phase":"response","payload":{"content":[{"type":"text","text":"K=` +
		secret + `"}]},"context":{"sessionId":"a"},"expect":{"decision":"allow"}},`
	send := func(tool, session, expect string) string {
		return fmt.Sprintf(`{"op":"apply","event":"tools/call","phase":"request","payload":{"name":%q,"arguments":{"x":%q}},"context":{"sessionId":%q},"expect":%s}`, tool, secret, session, expect)
	}
	const allow, deny = `{"decision":"allow","requires":["` + secret + `"]}`, `{"decision":"deny"}`
	const without = `{"decision":"allow","forbids":["` + secret + `"],"requires":["[secret]"]}`
	for name, text := range map[string][2]string{
		"read, then sent elsewhere":     {guard, read + send("write_query", "a", deny)},
		"back to where it was read":     {guard, read + send("write_file", "a", allow)},
		"not read before":               {guard, send("write_query", "a", allow)},
		"read in another session":       {guard, read + send("write_query", "b", allow)},
		"read without a session":        {guard, strings.ReplaceAll(read+send("write_query", "a", deny), `"a"`, `""`)},
		"taken out":                     {redactor, send("write_query", "a", without)},
		"taken out before it is judged": {guard + "," + redactor, read + send("write_query", "a", without)},
	} {
		t.Run(name, func(t *testing.T) {
			var f fixture
			if err := json.Unmarshal([]byte(`{"interceptors":[`+text[0]+`],"steps":[`+text[1]+`]}`), &f); err != nil {
				t.Fatal(err)
			}
			f.run(t)
		})
	}
}

// run passes the payloads of a fixture through a policy over its interceptors.
func (f *fixture) run(t *testing.T) {
	var listed []string
	behaviors := make(map[string]string)
	for _, i := range f.Interceptors {
		phases := []string{i.Phases}
		if i.Phases == "both" {
			phases = []string{"request", "response"}
		}
		var hooks []map[string]any
		for _, phase := range phases {
			hooks = append(hooks, map[string]any{"events": i.Events, "phase": phase})
		}
		descriptor := map[string]any{"name": i.Name, "type": i.Type, "hooks": hooks, "failOpen": i.FailOpen}
		if i.Mode != "" {
			descriptor["mode"] = i.Mode
		}
		raw, err := json.Marshal(descriptor)
		if err != nil {
			t.Fatal(err)
		}
		listed, behaviors[i.Name] = append(listed, string(raw)), i.Behavior
	}
	s := lists(listed...)
	var seen secrets
	s.answer = func(ctx context.Context, name, params string) (string, error) {
		switch behavior := behaviors[name]; behavior {
		case "cross-boundary-guard", "secretless-redactor":
			return seen.answer(behavior, json.RawMessage(params))
		default:
			return behaves(ctx, plain[behavior], params)
		}
	}
	p := opened(t, s, governance.Spec{})
	reads := make(map[string]governance.Exchange) // the latest request, by session
	for n, step := range f.Steps {
		if step.Op != "apply" && step.Op != "chain" {
			t.Skipf("%s: %s is answered by servers", f.ID, step.Op)
		}
		x := reads[step.Context.SessionID]
		if step.Phase == "request" {
			tool, _ := rawjson.Text(rawjson.Get(step.Payload, "name"))
			x = governance.Exchange{
				Method:    step.Event,
				ToChild:   true,
				Session:   step.Context.SessionID,
				Request:   step.Payload,
				Tool:      tool,
				Extension: extensionOf[tool],
			}
			reads[x.Session] = x
		} else {
			x.Method, x.ToChild, x.Response = step.Event, true, step.Payload
		}
		step.check(t, n, p, &x)
	}
}

// check decides about one payload.
func (s *step) check(t *testing.T, n int, p governance.Policy, x *governance.Exchange) {
	d, err := p.Decide(t.Context(), governance.Flow(s.Phase), x)
	decision, final := "allow", s.Payload
	switch {
	case err != nil || d.Action == governance.Deny && !d.Shadow:
		decision = "deny"
	case d.Action == governance.Modify && !d.Shadow:
		final = d.JSON
	}
	if decision != s.Expect.Decision {
		t.Errorf("step %d: %s, %+v, %v; want %s", n, decision, d, err, s.Expect.Decision)
	}
	if want := s.Expect.FinalPayload; want != nil && canonical(t, final) != canonical(t, want) {
		t.Errorf("step %d: %s, want %s", n, final, want)
	}
	for _, text := range s.Expect.Forbids {
		if strings.Contains(string(final), text) {
			t.Errorf("step %d: %s is in %s", n, text, final)
		}
	}
	for _, text := range s.Expect.Requires {
		if !strings.Contains(string(final), text) {
			t.Errorf("step %d: %s is not in %s", n, text, final)
		}
	}
}

func canonical(t *testing.T, raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(v) // what was decoded encodes
	return string(b)
}

// plain are the behaviours without memory, by their names in fixtures.
var plain = map[string]string{"allow-all": "allow", "deny-all": "deny", "require-note": "needs-note",
	"require-uppercase-note": "needs-upper", "uppercase-note": "upper", "crash": "crash"}

// extensionOf says which extension has a tool.
var extensionOf = map[string]string{
	"read_file":   "files",
	"write_file":  "files",
	"write_query": "database",
	"echo":        "echo",
}

// secretForm matches what the interceptors take for a secret.
var secretForm = regexp.MustCompile(`sk_live_\w+|ghp_\w+|AKIA\w{16}`)

// secrets are those that passed in answers: by session and text, the extension that sent it.
type secrets struct {
	mu   sync.Mutex
	from map[[2]string]string
}

// answer is that of an interceptor with memory, which knows sessions and extensions by what the policy
// tells of them.
func (s *secrets) answer(behavior string, params json.RawMessage) (string, error) {
	payload := rawjson.Get(params, "payload")
	if behavior == "secretless-redactor" {
		redacted := secretForm.ReplaceAll(payload, []byte("[secret]"))
		return fmt.Sprintf(`{"type":"mutation","modified":%t,"payload":%s}`, string(redacted) != string(payload),
			redacted), nil
	}
	session, _ := rawjson.Text(rawjson.Get(rawjson.Get(params, "context"), "sessionId"))
	extension, _ := rawjson.Text(rawjson.Get(rawjson.Get(params, "_meta"), "exthost/extension"))
	phase, _ := rawjson.Text(rawjson.Get(params, "phase"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range secretForm.FindAllString(string(payload), -1) {
		at := [2]string{session, found}
		if phase == "response" {
			if s.from == nil {
				s.from = make(map[[2]string]string)
			}
			s.from[at] = extension
		} else if from := s.from[at]; from != "" && from != extension {
			return `{"type":"validation","valid":false,"severity":"error","messages":[{"message":"a secret of ` + from +
				`"}]}`, nil
		}
	}
	return `{"type":"validation","valid":true}`, nil
}
