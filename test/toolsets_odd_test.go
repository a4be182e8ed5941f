package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// answering returns the [transport] of an MCP server of legacy ("older") or modern ("newer") versions, or one that
// never finishes its handshake ("never"). It answers each method with the entry of answers, in which %NAME% stands
// for the name, URI or cursor of the request. The entry "tools/call x" applies to x alone; the lines of "before
// tools/call x" precede the response, those of "after tools/call x" follow it. It records all requests, see
// [heardBy].
func answering(versions string, answers map[string]string) string {
	table, _ := json.Marshal(answers) // strings always encode
	return fmt.Sprintf("[transport]\ncommand = \"%%EXE%%\"\nprotocol = \"mcp\"\nenv = { %s = %q, ANSWERS = %q }\n",
		processtest.ScriptVar, "answering "+versions, table)
}

// serveAnswers runs the server of [answering].
func serveAnswers(versions string) {
	var answers map[string]string
	_ = json.Unmarshal([]byte(os.Getenv("ANSWERS")), &answers) // written by answering
	capabilities := `"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}},"serverInfo":{"name":"x","version":"1"}`
	if own := answers["capabilities"]; own != "" {
		capabilities = own
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		frame := json.RawMessage(lines.Bytes())
		method, _ := rawjson.Text(rawjson.Get(frame, "method"))
		params := rawjson.Get(frame, "params")
		name, ok := rawjson.Text(rawjson.Get(params, "name"))
		for _, other := range []string{"uri", "cursor"} {
			if !ok {
				name, ok = rawjson.Text(rawjson.Get(params, other))
			}
		}
		id := rawjson.Get(frame, "id")
		if method == "" {
			appendState("heard", string(frame))
			continue
		}
		if appendState("heard", method+" "+string(params)); id == nil {
			continue
		}
		answer := answers[method+" "+name]
		if answer == "" {
			answer = answers[method]
		}
		switch {
		case method == "initialize" && versions == "older":
			answer = `{"protocolVersion":"2025-11-25",` + capabilities + `}`
		case method == "server/discover" && versions == "newer":
			answer = `{"resultType":"complete","supportedVersions":["2026-07-28"],` + capabilities + `}`
		case versions == "never":
			continue
		case method == "tools/list" && answer == "":
			answer = `{"tools":[{"name":"read","inputSchema":{"type":"object"}}]}`
		case answer == "":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s here"}}`+"\n", id, method)
			continue
		}
		fmt.Print(answers["before "+method+" "+name])
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, strings.ReplaceAll(answer, "%NAME%", name))
		fmt.Print(answers["after "+method+" "+name])
	}
}

// heardBy returns what a server of [answering] received, one message a line.
func heardBy(t testing.TB, state, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(state, id, "heard"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// openPart opens a host with an extension alpha and a toolset "part" that shows some of it.
func openPart(t testing.TB, state, alpha string, part config.Toolset) *exthost.Host {
	f := hosttest.NewFolder(t).Add("alpha", alpha)
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{"part": part}
	return f.OpenWith(cfg, exthost.Options{StateDir: state})
}

// partSession returns an unattached session with the toolset "part" at an extension, "" for all.
func partSession(extension, version string) *protocol.Session {
	return &protocol.Session{
		ID:           extension + version,
		Version:      version,
		Toolset:      "part",
		Extension:    extension,
		Client:       hosttest.NewRecorder(),
		Capabilities: json.RawMessage(`{}`),
	}
}

// Notifications about items that a toolset hides, or may hide, do not reach the extension.
func TestToolsetHidesFromNotifications(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	h := openPart(t, state, answering("older", map[string]string{"tools/call": `{"content":[]}`}),
		config.Toolset{Include: []string{"ext_alpha_read", "ext_alpha_note:*"}})
	s := partSession("alpha", protocol.MCP20251125)
	for _, n := range [][2]string{
		{"notifications/acme/opened", `{"uri":"note://x"}`}, {"notifications/acme/opened", `{"uri":"secret://x"}`},
		{"notifications/acme/ran", `{"tool":"secret"}`}, {"notifications/roots/list_changed", `{}`},
	} {
		_, _ = h.Do(context.Background(),
			&protocol.Call{Session: s, Extension: "alpha", Method: n[0], Params: json.RawMessage(n[1]), Notify: true})
	}
	if _, err := doAs(t, h, s, "alpha", "tools/call", `{"name":"read"}`); err != nil {
		t.Fatal(err)
	}
	heard := heardBy(t, state, "alpha")
	if strings.Contains(heard, "secret") || !strings.Contains(heard, "note://x") ||
		!strings.Contains(heard, "roots/list_changed") {
		t.Errorf("the extension hears\n%s", heard)
	}
}

// Clients cannot cancel a request by an id that the host assigned: it may belong to another client's call.
func TestClientsCannotCancelOtherCalls(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	h := hosttest.NewFolder(t).Add("alpha",
		answering("older", map[string]string{"tools/call": `{"content":[]}`})).Open(exthost.Options{
		StateDir: state,
	})
	r := post(t, hosttest.OverHTTP(t, h)+"/alpha/mcp",
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
		http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}, make(chan string, 10))
	if r.StatusCode != http.StatusAccepted {
		t.Errorf("it is answered %s", r.Status)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_alpha_read", nil); err != nil {
		t.Fatal(err)
	}
	if heard := heardBy(t, state, "alpha"); strings.Contains(heard, "cancelled") {
		t.Errorf("the extension hears\n%s", heard)
	}
}

// Stored results of a tool are gone for callers that no longer see the tool, after a reload or with another
// toolset.
func TestToolsetHidesStoredResults(t *testing.T) {
	processtest.Leaks(t)
	long, _ := json.Marshal(strings.Repeat("line\n", 1000))
	f := hosttest.NewFolder(t).Add("alpha",
		answering("older", map[string]string{
			"tools/call": `{"content":[{"type":"text","text":` + string(long) + `}]}`,
		}))
	with := func(part config.Toolset) *config.Config {
		cfg := f.Config()
		cfg.Plugins = []governance.Spec{
			{
				Name:     "cap",
				Category: governance.Content,
				Builtin:  "size_cap",
				Config:   map[string]any{"max_bytes": 2048, "preview_bytes": 100},
			},
		}
		cfg.Toolsets = map[string]config.Toolset{"part": part, "none": {Include: []string{"ext_alpha_note:*"}}}
		return cfg
	}
	h := f.OpenWith(with(config.Toolset{Include: []string{"ext_alpha_read"}}),
		exthost.Options{
			Reread: func() (*config.Config, error) {
				return with(config.Toolset{Exclude: []string{"ext_alpha_read"}}), nil
			},
		})
	s := partSession("", protocol.MCP20251125)
	s.Caller = "ann"
	other := *s
	other.Toolset = "none"
	result, err := doAs(t, h, s, "", "tools/call", `{"name":"ext_alpha_read"}`)
	_, after, found := strings.Cut(string(result), `\"handle\":\"`)
	handle, _, _ := strings.Cut(after, `\"`)
	if err != nil || !found {
		t.Fatalf("%s, %v", result, err)
	}
	page := func(s *protocol.Session, handle string) string {
		result, err := doAs(t, h, s, "", "tools/call",
			`{"name":"exthost_result_page","arguments":{"handle":"`+handle+`"}}`)
		if err != nil {
			return err.Error()
		}
		return string(result)
	}
	if got := page(s, handle); !strings.Contains(got, `line\nline`) {
		t.Errorf("its own toolset reads %.300s", got)
	}
	if got := page(&other, handle); got != page(&other, "none") {
		t.Errorf("another toolset reads %.300s", got)
	}
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := page(s, handle); got != page(s, "none") {
		t.Errorf("after a reload that hides the tool it reads %.300s", got)
	}
}

// A task's requests and messages do not reach sessions whose toolset hides the task's tool, during a call of
// another tool or after it: other sessions of the caller, and its own after a reload hides the tool.
func TestToolsetHidesWhatTasksAsk(t *testing.T) {
	processtest.Leaks(t)
	asks := func(id string) string {
		about := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}` + "\n"
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"secret",` + about +
			`{"jsonrpc":"2.0","id":"` + id +
			`","method":"elicitation/create","params":{"message":"secret?","requestedSchema":{"type":"object","properties":{}},` + about
	}
	for id, instances := range map[string]string{"shared": "1", "own": "per_session"} {
		t.Run(id, func(t *testing.T) {
			state := t.TempDir()
			f := hosttest.NewFolder(t).Add("alpha", answering("older", map[string]string{
				"capabilities": `"capabilities":{"tools":{},"logging":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}`,
				"tools/list":   `{"tools":[{"name":"read","inputSchema":{"type":"object"}},{"name":"later","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`,
				"tools/call":   `{"content":[]}`, "tools/call later": `{"task":{"taskId":"t1","status":"working"}}`,
				"before tools/call read": asks("during"), "after tools/call read": asks("after"),
			})+"[runtime]\ninstances = \""+instances+"\"\n")
			with := func(part config.Toolset) *config.Config {
				cfg := f.Config()
				cfg.Toolsets = map[string]config.Toolset{"part": part, "reads": {Include: []string{"*_read"}}}
				return cfg
			}
			h := f.OpenWith(with(config.Toolset{}),
				exthost.Options{
					StateDir: state,
					Reread: func() (*config.Config, error) {
						return with(config.Toolset{Include: []string{"*_read"}}), nil
					},
				})
			answers := 0
			// reads calls the tool that asks, and returns the numbers of requests and messages that the session
			// got.
			reads := func(s *protocol.Session) (asked, told int) {
				client := s.Client.(*questioned)
				client.n.Store(0)
				secrets := func() int { return strings.Count(strings.Join(client.Told(), " "), "secret") }
				before := secrets()
				if _, err := doAs(t, h, s, "", "tools/call", `{"name":"ext_alpha_read"}`); err != nil {
					t.Fatal(err)
				}
				answers++
				hosttest.Eventually(t, "the server has its answers", func() bool {
					heard := heardBy(t, state, "alpha")
					return strings.Count(heard, `"id":"during"`) == answers && strings.Count(heard, `"id":"after"`) == answers
				})
				return int(client.n.Load()), secrets() - before
			}
			visit := func(toolset string) *protocol.Session {
				s := partSession("", protocol.MCP20251125)
				s.ID, s.Caller, s.Toolset, s.Client, s.Capabilities = toolset, "ann", toolset, &questioned{
					Recorder: hosttest.NewRecorder(),
				}, json.RawMessage(`{"elicitation":{}}`)
				return s
			}
			s, other := visit("part"), visit("reads")
			ctx, leave := context.WithCancel(hosttest.Deadline(t))
			if err := h.Attach(ctx, s); err != nil {
				t.Fatal(err)
			}
			if _, err := doAs(t, h, s, "", "tools/call", `{"name":"ext_alpha_later","task":{}}`); err != nil {
				t.Fatal(err)
			}
			if asked, told := reads(s); asked != 2 || told == 0 {
				t.Errorf("its own session is asked %d times and told %d times", asked, told)
			}
			if id == "shared" {
				if asked, told := reads(other); asked+told != 0 {
					t.Errorf("another toolset is asked %d times and told %d times", asked, told)
				}
			}
			if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
				t.Fatal(err)
			}
			if asked, told := reads(s); asked+told != 0 {
				t.Errorf("after a reload that hides the tool it is asked %d times and told %d times", asked, told)
			}
			leave()
			hosttest.Eventually(t, "the session ends", func() bool { return len(h.Admin().Status().Clients) == 0 })
			if id == "shared" {
				if asked, told := reads(other); asked+told != 0 {
					t.Errorf("another toolset is asked %d times and told %d times once the session has ended", asked,
						told)
				}
			}
		})
	}
}

// questioned is a client that counts requests.
type questioned struct {
	*hosttest.Recorder
	n atomic.Int32
}

func (q *questioned) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	q.n.Add(1)
	return json.RawMessage(`{"action":"decline"}`), nil
}

// Items of an MCP extension that two servers declare are hidden like missing ones.
func TestToolsetHidesItemsOfFamilies(t *testing.T) {
	processtest.Leaks(t)
	declares := `"capabilities":{"tools":{},"resources":{},"extensions":{"com.acme/notes":{}}},"serverInfo":{"name":"x","version":"1"}`
	serves := func(id string) string {
		return answering("newer", map[string]string{"capabilities": declares, "notes/get": `{"got":"%NAME%"}`,
			"notes/list": `{"notes":[{"uri":"note://` + id + `"},{"uri":"vault://` + id + `"},{"name":"secret ` + id +
				`"}],"all":["vault secret"]}`})
	}
	f := hosttest.NewFolder(t).Add("alpha", serves("alpha")).Add("beta", serves("beta"))
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{
		"part": {Include: []string{"*_note:*", "*_read"}},
		"one":  {Include: []string{"ext_alpha_note:*"}},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	for _, toolset := range []string{"part", "one"} {
		for _, extension := range []string{"", "alpha"} {
			s := partSession(extension, protocol.MCP20260728)
			s.Toolset = toolset
			ask := func(method, params string) string {
				result, err := doAs(t, h, s, extension, method, params)
				if err != nil {
					return err.Error()
				}
				return string(result)
			}
			if got := ask("notes/list", `{}`); !strings.Contains(got, "note://alpha") ||
				strings.Contains(got, "vault") || strings.Contains(got, "secret") ||
				strings.Contains(got, "beta") != (toolset == "part" && extension == "") {
				t.Errorf("%s at %q lists %s", toolset, extension, got)
			}
			if got := ask("notes/get", `{"uri":"note://alpha"}`); !strings.Contains(got, `"got"`) {
				t.Errorf("%s at %q gets %s", toolset, extension, got)
			}
			for _, params := range []string{
				`{"uri":"vault://alpha"}`,
				`{"name":"secret alpha"}`,
				`{"name":"secret beta"}`,
				`{"uri":"vault://beta"}`,
				`{"id":"note://alpha","uri":"vault://alpha"}`,
			} {
				hidden, nothing := ask("notes/get", params), ask("notes/get",
					strings.ReplaceAll(strings.ReplaceAll(params, "alpha", "gamma"), "beta", "gamma"))
				if got := strings.NewReplacer("alpha", "gamma", "beta", "gamma").Replace(hidden); got !=
					strings.NewReplacer("alpha", "gamma", "beta", "gamma").Replace(nothing) {
					t.Errorf("%s at %q: what is hidden and what there is not differ:\n%s\n%s", toolset, extension,
						hidden, nothing)
				}
			}
		}
	}
}

// A toolset that hides the first of two prompts with one plain name does not rename the other.
func TestToolsetChangesNoNamesOfPrompts(t *testing.T) {
	processtest.Leaks(t)
	serves := func(id, prompt string) string {
		return answering("older",
			map[string]string{
				"prompts/list": `{"prompts":[{"name":"` + prompt + `"}]}`,
				"prompts/get":  `{"messages":[],"by":"` + id + `"}`,
			})
	}
	f := hosttest.NewFolder(t).Add("a", serves("a", "b_c")).Add("a_b", serves("a_b", "c"))
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{"part": {Include: []string{"ext_a_b_*"}}}
	h := f.OpenWith(cfg, exthost.Options{})
	free, part := partSession("", protocol.MCP20251125), partSession("", protocol.MCP20251125)
	free.Toolset = ""
	ask := func(s *protocol.Session, method, params string) string {
		result, err := doAs(t, h, s, "", method, params)
		if err != nil {
			return err.Error()
		}
		return string(result)
	}
	all := ask(free, "prompts/list", `{}`)
	own := ask(part, "prompts/list", `{}`)
	name, _ := rawjson.Text(rawjson.Get(json.RawMessage(strings.TrimSuffix(strings.TrimPrefix(own, `{"prompts":[`),
		`]}`)), "name"))
	if !strings.Contains(all, `"`+name+`"`) || name == "ext_a_b_c" || name == "" {
		t.Errorf("the toolset lists %s, all are %s", own, all)
	}
	for s, want := range map[*protocol.Session]string{free: `"a"`, part: "there is no prompt|lists a prompt"} {
		if got := ask(s, "prompts/get", `{"name":"ext_a_b_c"}`); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("ext_a_b_c is %s, want %s", got, want)
		}
	}
	if got := ask(part, "prompts/get", `{"name":"`+name+`"}`); !strings.Contains(got, `"a_b"`) {
		t.Errorf("%s is %s", name, got)
	}
}

// A call of a tool of a skipped extension does not reveal whether a hidden extension could own its name.
func TestToolsetHidesWhoIsThere(t *testing.T) {
	processtest.Leaks(t)
	serves := answering("older", map[string]string{"tools/call": `{"content":[]}`})
	f := hosttest.NewFolder(t).Add("a", serves+"[requires]\nbins = [\"no-such-program\"]\n").Add("a_b", serves)
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{"part": {Include: []string{"ext_a_*"}}}
	h := f.OpenWith(cfg, exthost.Options{})
	if _, err := h.Call(hosttest.Deadline(t), "ext_a_b_read", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ext_a_b_read", "ext_a_c_read"} {
		_, err := doAs(t, h, partSession("", protocol.MCP20251125), "", "tools/call", `{"name":"`+name+`"}`)
		if protocol.KindOf(err) != protocol.RequirementMissing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While an extension starts, a call of a hidden name waits no longer than one of a missing extension, and the
// client gets no message about waiting.
func TestToolsetHidesWhatStarts(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("slow", answering("never", nil))
	cfg := f.Config()
	cfg.Server.ListWait = manifest.Duration(2 * time.Second)
	cfg.Toolsets = map[string]config.Toolset{"part": {Include: []string{"*_note:*", "*_read"}}}
	h := f.OpenWith(cfg, exthost.Options{Mode: exthost.Mode{Background: true}})
	for _, name := range []string{"ext_slow_write", "ext_never_write", "ext_slow_read"} {
		waits := name == "ext_slow_read"
		s := partSession("", protocol.MCP20251125)
		_, err := doAs(t, h, s, "", "tools/call", `{"name":"`+name+`","_meta":{"progressToken":1}}`)
		if told := s.Client.(*hosttest.Recorder).Told(); (protocol.KindOf(err) == protocol.NotReady) != waits ||
			(len(told) > 0) != waits {
			t.Errorf("%s: %v, after %q", name, err, told)
		}
	}
}

// Cursors that name the last item of a page are not shown to a client that sees some items: it gets one list
// without cursors.
func TestToolsetHidesCursors(t *testing.T) {
	processtest.Leaks(t)
	declares := `"capabilities":{"tools":{},"resources":{},"prompts":{},"extensions":{"com.acme/notes":{}}},"serverInfo":{"name":"x","version":"1"}`
	pages := func(member, key string) string {
		return `{"resultType":"complete","ttlMs":7,"` + member + `":[{"` + key + `":"note://a"},{"` + key +
			`":"vault://b"}],"nextCursor":"vault://b"}`
	}
	last := func(member, key string) string {
		return `{"resultType":"complete","` + member + `":[{"` + key + `":"vault://c"},{"` + key + `":"note://d"}]}`
	}
	f := hosttest.NewFolder(t).Add("alpha", answering("newer", map[string]string{
		"capabilities":             declares,
		"resources/list":           pages("resources", "uri"),
		"resources/list vault://b": last("resources", "uri"),
		"notes/list":               pages("notes", "uri"),
		"notes/list vault://b":     last("notes", "uri"),
		"prompts/list":             pages("prompts", "name"),
		"prompts/list vault://b":   last("prompts", "name"),
	}))
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{"part": {Include: []string{"ext_alpha_note*"}}, "all": {}}
	h := f.OpenWith(cfg, exthost.Options{})
	for _, extension := range []string{"", "alpha"} {
		for method, member := range map[string]string{
			"resources/list": "resources",
			"prompts/list":   "prompts",
			"notes/list":     "notes",
		} {
			s := partSession(extension, protocol.MCP20260728)
			result, err := doAs(t, h, s, extension, method, `{}`)
			var list []json.RawMessage
			if _ = json.Unmarshal(rawjson.Get(result, member), &list); err != nil || len(list) != 2 ||
				strings.Contains(string(result), "vault") || rawjson.Get(result, "nextCursor") != nil {
				t.Errorf("%s at %q: %s, %v", method, extension, result, err)
			}
			s.Toolset = "all"
			if result, err = doAs(t, h, s, "alpha", method, `{}`); err != nil ||
				rawjson.Get(result, "nextCursor") == nil {
				t.Errorf("%s of a toolset of everything: %s, %v", method, result, err)
			}
		}
	}
}

// A client that sees only a tool of an extension gets none of its notifications about resources.
func TestToolsetHidesFromListeners(t *testing.T) {
	processtest.Leaks(t)
	var says strings.Builder
	for _, n := range []string{`resources/list_changed","params":{}`, `resources/updated","params":{"uri":"vault://x"}`,
		`acme/ran","params":{"tool":"vault"}`, `acme/ran","params":{"uri":"vault://x"}`,
		`acme/ran","params":{"uri":"note://x"}`, `message","params":{"level":"error","data":"hello"}`,
		`elicitation/complete","params":{"elicitationId":"x"}`, `prompts/list_changed","params":{"last":true}`} {
		says.WriteString(`{"jsonrpc":"2.0","method":"notifications/` + n + "}\n")
	}
	alpha := answering("older",
		map[string]string{
			"tools/call":            `{"content":[]}`,
			"resources/list":        `{"resources":[]}`,
			"after tools/call read": says.String(),
		}) + "[runtime]\ninstances = \"per_session\"\n"
	for want, include := range map[string][]string{
		"message elicitation/complete prompts/list_changed": {"ext_alpha_read"},
		"resources/list_changed acme/ran message elicitation/complete prompts/list_changed": {"ext_alpha_read",
			"ext_alpha_note:*"},
	} {
		h := openPart(t, t.TempDir(), alpha, config.Toolset{Include: include})
		s := partSession("", protocol.MCP20251125)
		if err := h.Attach(hosttest.Deadline(t), s); err != nil {
			t.Fatal(err)
		}
		if _, err := doAs(t, h, s, "", "tools/call", `{"name":"ext_alpha_read"}`); err != nil {
			t.Fatal(err)
		}
		client := s.Client.(*hosttest.Recorder)
		hosttest.Eventually(t, "the last one is heard",
			func() bool { return strings.Contains(strings.Join(client.Told(), " "), `"last"`) })
		var got []string
		for _, line := range client.Told() {
			if method, params, _ := strings.Cut(strings.TrimPrefix(line, "notifications/"), " "); params != "" {
				got = append(got, method)
			}
		}
		if strings.Join(got, " ") != want || strings.Contains(strings.Join(client.Told(), " "), "vault") {
			t.Errorf("heard %q, want %s", client.Told(), want)
		}
	}
}
