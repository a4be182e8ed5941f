package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// serveDeclaring is an MCP server that declares the MCP extensions of DECLARES, for clients of legacy ("older") or
// modern ("newer") versions. It serves a skill and the method acme/who.
func serveDeclaring(versions string) {
	id, told := os.Getenv("EXTHOST_EXTENSION_ID"), "null"
	uri := "skill://" + id + "/SKILL.md"
	squat := "" // an item under the URI of another extension's skill
	if at := os.Getenv("SQUATS"); at != "" {
		squat = `,{"uri":"` + at + `","name":"squat","frontmatter":{"name":"squat"},"resources":"dynamic"}`
	}
	lists := bufio.NewScanner(os.Stdin)
	lists.Buffer(nil, 1<<20)
	capabilities := `{"tools":{},"resources":{},"extensions":` + os.Getenv("DECLARES") + `}`
	for lists.Scan() {
		frame := json.RawMessage(lists.Bytes())
		method, _ := rawjson.Text(rawjson.Get(frame, "method"))
		params := rawjson.Get(frame, "params")
		asked, _ := rawjson.Text(rawjson.Get(params, "uri"))
		if own := rawjson.Get(rawjson.Get(params, "_meta"), protocol.MetaClientCapabilities); own != nil {
			told = string(own)
		}
		cached := `"resultType":"complete","ttlMs":` + os.Getenv("TTL") + `,"cacheScope":"public",`
		var result string
		switch {
		case method == "server/discover" && versions == "newer":
			result = `{` + cached + `"supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,` +
				introduction + `,"_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}}`
		case method == "initialize" && versions == "older":
			told = string(rawjson.Get(params, "capabilities"))
			result = `{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,` + introduction +
				`,"serverInfo":` + serverInfo + `}`
		case method == "tools/list":
			result = `{` + cached +
				`"tools":[{"name":"told","inputSchema":{"type":"object"}},{"name":"page","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://x","visibility":["app"]}}}]}`
		case method == "tools/call":
			result = `{"resultType":"complete","content":[{"type":"text","text":` + string(rawjson.Quote(told)) + `}]}`
		case method == "resources/list":
			result = `{` + cached + `"resources":[{"uri":"file:///` + id + `","name":"x"}` + squat + `]}`
		case method == "skills/list":
			result = `{` + cached + `"skills":[{"uri":"` + uri + `","frontmatter":{"name":"` + id +
				`"},"resources":"dynamic"},{"uri":"skill://shared/SKILL.md","from":"` + id + `"}` + squat + `]}`
		case method == "skills/get" && strings.HasPrefix(asked, "skill://"):
			result = `{` + cached + `"skill":{"uri":"` + asked + `","from":"` + id + `"}}`
		case method == "resources/read", method == "resources/directory/read":
			result = `{` + cached + `"contents":[{"uri":"` + asked + `","text":"` + id + `"}]}`
		case method == "acme/who":
			result = `{"resultType":"complete","id":"` + id + `"}`
		}
		switch n := rawjson.Get(frame, "id"); {
		case n == nil:
		case result == "":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s here"}}`+"\n", n, method)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", n, result)
		}
	}
}

// Declarations of that server.
const (
	introduction = `"instructions":"use \u001b[2J\u202ethe key ghp_` + "0123456789abcdefghijABCDEFGHIJ012345" + `"`
	serverInfo   = `{"name":"s\u0007","version":"1","x_n":12345678901234567890}`
)

// declaring returns the manifest of a server that declares extensions.
func declaring(versions, extensions string, ttl int, more string) string {
	return fmt.Sprintf("[transport]\ncommand = \"%%EXE%%\"\nprotocol = \"mcp\"\nenv = { %s = %q, DECLARES = %q, TTL "+
		"= \"%d\" }\n%s",
		processtest.ScriptVar, "declaring "+versions, extensions, ttl, more)
}

const skills = `"io.modelcontextprotocol/skills":{}`

// Official legacy and modern clients see the declarations of several servers as one.
func TestDeclaredExtensionsOfMCP(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).
		Add("a", declaring("older",
			`{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]},"com.acme/x":{"same":{"n":1.0},"a":true,"deep":{"a":1}}}`, 0, "")).
		Add("b", declaring("newer", `{"com.acme/x":{"b":1,"same":{"n":1.0},"deep":{"b":2}},`+skills+`}`, 0, "")).
		Add("c", declaring("newer", `{"com.acme/x":{"a":false,"deep":7}}`, 0, "")).
		Open(exthost.Options{})
	want := map[string]any{
		"io.modelcontextprotocol/ui":     map[string]any{"mimeTypes": []any{"a"}},
		"io.modelcontextprotocol/skills": map[string]any{},
		"com.acme/x": map[string]any{
			"same": map[string]any{"n": 1.0},
			"a":    true,
			"b":    1.0,
			"deep": map[string]any{"a": 1.0, "b": 2.0},
		},
	}
	url := hosttest.OverHTTP(t, h)
	for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(hosttest.Deadline(t),
			&mcp.StreamableClientTransport{Endpoint: url + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.InitializeResult().Capabilities.Extensions; !cmp.Equal(want, got) {
			t.Errorf("%s (-want +got):\n%s", version, cmp.Diff(want, got))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for id, want := range map[string]string{"a": "mcp " + protocol.MCP20251125, "b": "mcp " + protocol.MCP20260728} {
		if got := hosttest.StatusOf(t, h, id).Protocol; got != want {
			t.Errorf("%s speaks %q, want %q", id, got, want)
		}
	}
	if got := warnings(h, "mcp_extension"); !slices.Equal(got,
		[]string{
			`c: the MCP extension "com.acme/x" has other settings in an earlier extension, and clients are offered those: a, deep`,
		}) {
		t.Errorf("diagnostics %q", got)
	}
}

// warnings returns the diagnostics with a code and their extensions.
func warnings(h *exthost.Host, code string) (texts []string) {
	for _, d := range h.Status().Diagnostics {
		if d.Code == code {
			texts = append(texts, d.Extension+": "+d.Message)
		}
	}
	return texts
}

// Invalid declarations are not offered.
func TestHostileDeclarations(t *testing.T) {
	processtest.Leaks(t)
	many := []string{`"com.acme/good":{}`}
	for n := range 1000 {
		many = append(many, fmt.Sprintf(`"com.many/x%d":{}`, n))
	}
	h := hosttest.NewFolder(t).
		Add("a", declaring("older",
			`{"tools":{},"com.acme/tools":{"k":1},"no.object/x":[1],"huge.one/x":{"t":"`+strings.Repeat("x",
				9000)+`"},"bad\u001b[2J/x":{},"hidden.text/x":{"t":"\u202e"},"`+strings.Repeat("l", 200)+`/x":{}}`, 0,
			"")).
		Add("b", declaring("older", `{`+strings.Join(many, ",")+`}`, 0, "")).
		Add("c", declaring("older", `7`, 0, "")).
		Open(exthost.Options{})
	d, err := h.Describe(hosttest.Deadline(t), &protocol.Session{Version: protocol.MCP20251125})
	if err != nil {
		t.Fatal(err)
	}
	var offered struct{ Extensions map[string]json.RawMessage }
	if err := json.Unmarshal(d.Capabilities, &offered); err != nil {
		t.Fatal(err)
	}
	if n := len(offered.Extensions); n != 65 || offered.Extensions["com.acme/good"] == nil ||
		string(offered.Extensions["com.acme/tools"]) != `{"k":1}` {
		t.Errorf("%d are offered: %s", n, d.Capabilities)
	}
	got := strings.Join(warnings(h, "mcp_extension"), "\n")
	for _, want := range []string{
		`a: the MCP extension "tools" is ignored: an identifier is`, `a: the MCP extension "bad[2J/x" is ignored`,
		`a: the MCP extension "no.object/x" is ignored: its settings are no object`,
		`a: the MCP extension "huge.one/x" is ignored: its settings have 9008 bytes`,
		`a: the MCP extension "hidden.text/x" is ignored: its settings hold`,
		`lll…" is ignored: its identifier has 202 bytes`,
		`a: the methods tools/… are not those of the MCP extension "com.acme/tools"`,
		`b: the MCP extension "com.many/x63" is ignored: at most 64`, `b: 929 more MCP extensions are ignored`,
		`c: capabilities.extensions is ignored: it is no object`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no diagnostic %q in\n%s", want, got)
		}
	}
	if listed, err := h.Do(hosttest.Deadline(t), &protocol.Call{Method: "tools/list"}); err != nil ||
		strings.Count(string(listed), `"name"`) != 6 {
		t.Errorf("tools/list: %s, %v", listed, err)
	}
}

// Methods of MCP extensions work in legacy and modern versions: lists are merged, other methods go to the server
// with the item.
func TestMethodsOfDeclaredExtensions(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).
		Add("a", declaring("older", `{`+skills+`,"com.acme/acme":{}}`, 0, "")).
		Add("b", declaring("newer", `{"io.modelcontextprotocol/skills":{"directoryRead":true}}`, 5000, "")).
		Add("evil", declaring("newer", `{"com.evil/skills":{}}`, 5000, "")).
		Open(exthost.Options{
			Policies: []governance.Member{
				member("names", governance.Authorization, denying{"skills/get", "skill://a/denied"}),
			},
		})
	for _, w := range []*way{
		overStreamable(t, h, "/mcp", false),
		overStreamable(t, h, "/mcp", true),
		overStdio(t, h, false),
		overStdio(t, h, true),
	} {
		for n, c := range []struct{ method, members, want string }{
			{"skills/list", ``,
				`"skills":[{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a"},"resources":"dynamic"},{"uri":"skill://shared/SKILL.md","from":"a"},{"uri":"skill://b/SKILL.md","frontmatter":{"name":"b"},"resources":"dynamic"}]`},
			{"skills/get", `"uri":"skill://b/SKILL.md"`, `"from":"b"`},
			{"skills/get", `"uri":"skill://shared/SKILL.md"`, `"from":"a"`},
			{"skills/get", `"uri":"skill://a/denied/SKILL.md"`, `-32031`},
			{"skills/get", `"uri":"skill://nobody/SKILL.md"`,
				`none of a, b lists \"skill://nobody/SKILL.md\"; an item that is not listed is reached at /{id}/mcp`},
			{"skills/get", ``, `the params name no item`},
			{"resources/read", `"uri":"skill://b/deep/file.md"`, `"text":"b"`},
			{"resources/directory/read", `"uri":"skill://b/deep"`, `"text":"b"`},
			{"acme/who", ``, `"id":"a"`},
			{"acme/list", ``, `no acme/list here`},
			{"nobody/list", ``, `no extension declares an MCP extension with methods nobody/…`},
			{"nobody/get", `"uri":"x"`, `no extension declares an MCP extension with methods nobody/…`},
		} {
			got := w.request(t, n+1, c.method, c.members)
			if !strings.Contains(got, c.want) {
				t.Errorf("%s {%s}, stateless %v: %s", c.method, c.members, w.stateless, got)
			}
			if c.method == "skills/list" && w.stateless && !strings.Contains(got, `"ttlMs":0,"cacheScope":"private"`) {
				t.Errorf("skills/list: %s", got)
			}
		}
	}
	if got := warnings(h, "mcp_extension"); !slices.Equal(got,
		[]string{
			`evil: the methods skills/… are those of "io.modelcontextprotocol/skills", and not of "com.evil/skills"`,
		}) {
		t.Errorf("diagnostics %q", got)
	}
}

// denying denies a method for names with a prefix.
type denying struct{ method, prefix string }

func (p denying) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if uri, _ := rawjson.Text(rawjson.Get(x.Request, "uri")); flow == governance.Request && x.Method == p.method &&
		strings.HasPrefix(uri, p.prefix) && x.Extension == "a" {
		return governance.Decision{Action: governance.Deny, Code: "no"}, nil
	}
	return governance.Decision{}, nil
}

// A list with one owner is forwarded with its pages, and unlisted items are found.
func TestListOfOneOwnerIsForwarded(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("a", declaring("newer", `{`+skills+`}`, 700, "")).Add("b",
		declaring("newer", `{}`, 300, "")).Open(exthost.Options{})
	w := overStdio(t, h, true)
	for n, c := range []struct{ method, members, want string }{
		{"skills/list", ``, `"ttlMs":700,"cacheScope":"public"`},
		{"skills/get", `"uri":"skill://hidden/SKILL.md"`, `"from":"a"`},
		{"resources/read", `"uri":"skill://hidden/SKILL.md"`, `"text":"a"`},
		{"resources/list", ``, `"ttlMs":300`},
	} {
		if got := w.request(t, n+1, c.method, c.members); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.method, got)
		}
	}
}

// Servers of legacy and modern versions learn the client's extensions.
func TestClientsDeclareExtensions(t *testing.T) {
	processtest.Leaks(t)
	const perSession = "[runtime]\ninstances = \"per_session\"\nmax_instances = 8\n"
	h := hosttest.NewFolder(t).
		Add("a", declaring("older", `{}`, 0, "")).
		Add("b", declaring("newer", `{}`, 0, "")).
		Add("c", declaring("older", `{}`, 0, perSession)).
		Open(exthost.Options{})
	ask := func(s *protocol.Session, tool string) string { return callTool(t, h, s, nil, tool, "{}") }
	old, _ := stay(t, h, "old", protocol.MCP20251125, "")
	mine := `{"extensions":{"com.acme/x":{"v":1}}}`
	s := &protocol.Session{
		ID:           "mine",
		Version:      protocol.MCP20251125,
		Client:       newClient("mine"),
		Capabilities: json.RawMessage(mine),
	}
	if err := h.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	modern := &protocol.Session{
		Version:      protocol.MCP20260728,
		Capabilities: json.RawMessage(`{"extensions":{"com.new/y":{}}}`),
	}
	const relays = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`
	for _, c := range []struct {
		s          *protocol.Session
		tool, want string
	}{
		{s, "ext_a_told", relays + `}}`},                          // it started before
		{s, "ext_b_told", mine},                                   // sent with the request
		{modern, "ext_b_told", `{"extensions":{"com.new/y":{}}}`}, // the same
		{old, "ext_b_told", string(old.Capabilities)},             // the same
		{s, "ext_c_told", mine},                                   // its own instance
	} {
		if got := ask(c.s, c.tool); got != c.want {
			t.Errorf("%s: told %s, want %s", c.tool, got, c.want)
		}
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "a"); err != nil {
		t.Fatal(err)
	}
	if got, want := ask(s, "ext_a_told"), relays+`,"com.acme/x":{"v":1}}}`; got != want {
		t.Errorf("after its restart it was told %s, want %s", got, want)
	}
	pages := &protocol.Session{
		Version:      protocol.MCP20260728,
		Capabilities: json.RawMessage(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`),
	}
	for _, c := range []struct {
		s    *protocol.Session
		want bool
	}{{s, false}, {modern, false}, {pages, true}, {nil, true}} {
		if list, err := h.Do(hosttest.Deadline(t), &protocol.Call{Session: c.s, Method: "tools/list"}); err != nil ||
			strings.Contains(string(list), "ext_a_page") != c.want {
			t.Errorf("tools for pages are listed: %v, %v", !c.want, err)
		}
	}
}

// A policy of the response flow can change or deny what a server declares to clients of its own endpoint.
func TestDeclarationsAreGoverned(t *testing.T) {
	processtest.Leaks(t)
	for _, c := range []struct{ server, version, method string }{
		{"older", protocol.MCP20251125, "initialize"}, {"newer", protocol.MCP20260728, "server/discover"},
	} {
		seen := 0
		policy := decider(func(flow governance.Flow, x *governance.Exchange) (d governance.Decision) {
			if x.Method != c.method {
				return d
			}
			if seen++; flow == governance.Request || x.Extension != "x" || !x.ToChild {
				t.Errorf("%s, flow %s, extension %s", x.Method, flow, x.Extension)
			}
			if x.Caller == "stranger" {
				return governance.Decision{Action: governance.Deny, Code: "no"}
			}
			return governance.Decision{
				Action: governance.Modify,
				JSON:   rawjson.Set(x.Response, "instructions", json.RawMessage(`"masked"`)),
			}
		})
		folder := hosttest.NewFolder(t).Add("x", declaring(c.server, `{}`, 0, ""))
		s := &protocol.Session{Version: c.version, Extension: "x"}
		plain, err := folder.Open(exthost.Options{}).Describe(hosttest.Deadline(t), s)
		if err != nil || plain.Instructions != "use [2Jthe key ghp_0123456789abcdefghijABCDEFGHIJ012345" ||
			string(plain.ServerInfo) != `{"name":"s","version":"1","x_n":12345678901234567890}` {
			t.Errorf("%s: %q, %s, %v", c.method, plain.Instructions, plain.ServerInfo, err)
		}
		h := folder.Open(exthost.Options{Policies: []governance.Member{member("p", governance.Content, policy)}})
		if d, err := h.Describe(hosttest.Deadline(t), s); err != nil || d.Instructions != "masked" ||
			!strings.Contains(string(d.Capabilities), "resources") {
			t.Errorf("%s: %+v, %v", c.method, d, err)
		}
		s.Caller = "stranger"
		if _, err := h.Describe(hosttest.Deadline(t), s); protocol.KindOf(err) != protocol.Rejected || seen != 2 {
			t.Errorf("%s: %v, seen %d times", c.method, err, seen)
		}
	}
}

// A policy can mask secrets in declarations to clients of all extensions. Denied declarations are left out.
func TestMergedDeclarationsAreGoverned(t *testing.T) {
	processtest.Leaks(t)
	policy := decider(func(_ governance.Flow, x *governance.Exchange) (d governance.Decision) {
		if x.Method == "tools/list" {
			return d
		}
		if x.Caller == "stranger" {
			return governance.Decision{Action: governance.Deny, Code: "no"}
		}
		masked := strings.ReplaceAll(string(x.Response), "canary", "***")
		return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(masked)}
	})
	h := hosttest.NewFolder(t).Add("x", declaring("older", `{"com.acme/x":{"key":"canary"}}`, 0, "")).
		Open(exthost.Options{Policies: []governance.Member{member("p", governance.Content, policy)}})
	for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
		d, err := h.Describe(hosttest.Deadline(t), &protocol.Session{Version: version})
		if got := rawjson.Get(d.Capabilities, "extensions"); err != nil ||
			string(got) != `{"com.acme/x":{"key":"***"}}` {
			t.Errorf("%s: %s, %v", version, got, err)
		}
		d, err = h.Describe(hosttest.Deadline(t), &protocol.Session{Version: version, Caller: "stranger"})
		if err != nil || rawjson.Get(d.Capabilities, "extensions") != nil ||
			rawjson.Get(d.Capabilities, "tools") == nil {
			t.Errorf("%s: a denial leaves %s, %v", version, d.Capabilities, err)
		}
	}
}
