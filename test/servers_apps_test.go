package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// serveApp is an MCP server with pages of MCP Apps. TOOLS has the descriptors of its tools, LISTED those of the pages
// that resources/list has; every page can be read. A result names the server and the tool, and has the params.
func serveApp(string) {
	id := os.Getenv("EXTHOST_EXTENSION_ID")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		frame := json.RawMessage(lines.Bytes())
		method, _ := rawjson.Text(rawjson.Get(frame, "method"))
		params := rawjson.Get(frame, "params")
		result := ""
		switch method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}}}`
		case "tools/list":
			result = `{"tools":` + os.Getenv("TOOLS") + `}`
		case "resources/list":
			result = `{"resources":[` + os.Getenv("LISTED") + `]}`
		case "resources/templates/list":
			result = `{"resourceTemplates":[]}`
		case "resources/read":
			uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
			result = fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/html;profile=mcp-app","text":"<p>%s</p>"}]}`,
				uri, id)
		case "tools/call":
			result = fmt.Sprintf(`{ "content":[{"type":"text","text":"%s"}],"structuredContent":{"n":12345678901234567890,`+
				`"by":%q,"params":%s},"_meta":{"ui":{"x":1.0},"of.page":[ ] } }`, id, id, params)
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

// appTool returns a descriptor. ui is the value of _meta.ui, "" for none.
func appTool(name, ui string) string {
	meta := ""
	if ui != "" {
		meta = `,"_meta":{"ui":` + ui + `}`
	}
	return `{"name":"` + name + `","inputSchema":{"type":"object"}` + meta + `}`
}

func appServer(listed string, tools ...string) string {
	return fmt.Sprintf("[transport]\ncommand = \"%%EXE%%\"\nprotocol = \"mcp\"\nmcp_version = \"2025-11-25\"\n"+
		"env = { %s = \"app\", TOOLS = '%s', LISTED = '%s' }\n",
		processtest.ScriptVar, "["+strings.Join(tools, ",")+"]", listed)
}

// shop and bank have pages, mail has none. All have a tool find.
func apps(t *testing.T) *hosttest.Folder {
	page := func(id, more string) string { return `{"resourceUri":"ui://` + id + `/page.html"` + more + `}` }
	return hosttest.NewFolder(t).
		Add("shop", appServer("", appTool("show", page("shop", "")), appTool("find", ""), appTool("plain", ""),
			appTool("get.time", `{"visibility":["app"]}`), appTool("refresh", `{"visibility":["app"]}`),
			appTool("buy", `{"visibility":["model"]}`), appTool("broken", `{"visibility":"app"}`))).
		Add("bank", appServer(`{"uri":"ui://bank/page.html","name":"p"}`, appTool("show", page("bank", "")),
			appTool("find", ""), appTool("balance", `{"visibility":["app"]}`), appTool("transfer", ""))).
		Add("mail", appServer("", appTool("find", ""), appTool("send", "")))
}

// pageClient is the session of a client that shows pages.
func pageClient(id string) *protocol.Session {
	return &protocol.Session{
		ID:           id,
		Caller:       "ada",
		Version:      protocol.MCP20251125,
		Capabilities: json.RawMessage(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`),
	}
}

// calling calls a tool, with the page it comes from unless that is "", and returns the id of the server that was
// called, or the error.
func calling(t *testing.T, h *exthost.Host, s *protocol.Session, tool, page string) string {
	t.Helper()
	params := `{"name":"` + tool + `","arguments":{}`
	if page != "" {
		params += `,"_meta":{"ui":{"resourceUri":"` + page + `"}}`
	}
	raw, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{Session: s, Method: protocol.MethodToolsCall, Params: json.RawMessage(params + `}`)})
	if err != nil {
		return err.Error()
	}
	return protocol.ToolResult(raw).Text()
}

func readPage(t *testing.T, h *exthost.Host, s *protocol.Session, uri string) string {
	t.Helper()
	raw, err := h.Do(hosttest.Deadline(t), &protocol.Call{
		Session: s,
		Method:  protocol.MethodResourcesRead,
		Params:  json.RawMessage(`{"uri":"` + uri + `"}`),
	})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// TestPagesCallToolsOfTheirServer has clients of all extensions forward calls of pages, which name tools as their
// server does.
func TestPagesCallToolsOfTheirServer(t *testing.T) {
	processtest.Leaks(t)
	var mu sync.Mutex
	var judged []string
	seen := decider(func(_ governance.Flow, x *governance.Exchange) governance.Decision {
		mu.Lock()
		defer mu.Unlock()
		if x.Method == protocol.MethodToolsCall {
			judged = append(judged, x.Extension+" "+x.Tool)
		}
		return governance.Decision{}
	})
	h := apps(t).Open(exthost.Options{Policies: []governance.Member{member("seen", governance.Authorization, seen)}})
	const shop, bank = "ui://shop/page.html", "ui://bank/page.html"
	one, both := pageClient("one"), pageClient("both")
	for _, r := range []struct {
		s        *protocol.Session
		uri, has string
	}{
		{one, shop, "<p>shop</p>"}, // not listed: a tool names it
		{both, shop, "<p>shop</p>"},
		{both, bank, "<p>bank</p>"},
		{one, "ui://nobody/page.html", `no extension lists a resource "ui://nobody/page.html"`},
	} {
		if got := readPage(t, h, r.s, r.uri); !strings.Contains(got, r.has) {
			t.Errorf("%s: %s", r.uri, got)
		}
	}
	plainClient := &protocol.Session{ID: "plain", Version: protocol.MCP20251125}
	calling(t, h, plainClient, "ext_shop_show", "") // it shows no page
	rendered := pageClient("rendered")
	calling(t, h, rendered, "ext_shop_show", "") // it has the page from before
	stateless := pageClient("")
	stateless.Instance = "at 10.0.0.1"
	readPage(t, h, stateless, shop)
	other := pageClient("")
	other.Instance = "at 10.0.0.2"
	for _, c := range []struct {
		name       string
		s          *protocol.Session
		tool, page string
		want       string
	}{
		{"stated", one, "find", shop, "shop"},
		{"stated, of two", both, "find", bank, "bank"},
		{"stated, registered name", both, "ext_bank_find", bank, "bank"},
		{"stated, renamed tool", one, "get.time", shop, "shop"},
		{"stated, no page was read", pageClient("new"), "refresh", shop, "shop"},
		{"stated by a Go caller", nil, "refresh", shop, "shop"},
		{"stated, tool of another server", both, "transfer", shop, `there is no tool "transfer"`},
		{"stated, registered tool of another", both, "ext_bank_transfer", shop, `there is no tool "ext_bank_transfer"`},
		{"stated, tool without pages", both, "send", shop, `there is no tool "send"`},
		{"stated, tool of the host", both, "ext_find", shop, `there is no tool "ext_find"`},
		{"stated, not for pages", one, "buy", shop, `pages must not call tool "buy"`},
		{"stated, unreadable visibility", one, "broken", shop, `pages must not call tool "broken"`},
		{"stated, page of another server", one, "balance", bank, "this client was given no page of bank"},
		{"stated, unknown page", one, "find", "ui://nobody/page.html", `no extension has the page`},

		{"shown", one, "refresh", "", "shop"},
		{"shown, others have it too", one, "find", "", "shop"},
		{"shown, tool without _meta", one, "plain", "", "shop"},
		{"shown, renamed tool", one, "get.time", "", "shop"},
		{"shown, not for pages", one, "buy", "", `pages must not call tool "buy"`},
		{"shown, tool of another server", one, "transfer", "", `there is no tool "transfer"`},
		{"shown, tool of a server without pages", one, "send", "", `there is no tool "send"`},
		{"registered name", one, "ext_mail_send", "", "mail"},
		{"shown by a call", rendered, "refresh", "", "shop"},
		{"shown to a client without a session", stateless, "refresh", "", "shop"},
		{"not shown to another client", other, "refresh", "", `there is no tool "refresh"`},
		{"nothing shown", pageClient("none"), "refresh", "", `there is no tool "refresh"`},
		{"a client without pages", plainClient, "refresh", "", `there is no tool "refresh"`},
		{"a Go caller", nil, "refresh", "", `there is no tool "refresh"`},

		{"both shown, one has it", both, "balance", "", "bank"},
		{"both shown, both have it", both, "show", "", `pages of shop and bank call a tool "show"`},
		{"both shown, not marked for pages", both, "transfer", "", `there is no tool "transfer"`},
	} {
		got := calling(t, h, c.s, c.tool, c.page)
		if got != c.want && (len(c.want) < 5 || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(judged, "shop ext_shop_get_time") || !slices.Contains(judged, "bank ext_bank_balance") {
		t.Errorf("policies saw %q", judged)
	}
	for _, name := range judged {
		if _, tool, _ := strings.Cut(name, " "); !strings.HasPrefix(tool, "ext_") {
			t.Errorf("a policy saw %q", name)
		}
	}
}

// TestPagesOverHTTP has clients of both eras forward the call of a page. The request and the result pass byte for byte.
func TestPagesOverHTTP(t *testing.T) {
	processtest.Leaks(t)
	h := apps(t).Open(exthost.Options{})
	for _, stateless := range []bool{false, true} {
		w := overStreamable(t, h, "/mcp", stateless)
		const page = `"uri":"ui://shop/page.html"`
		if got := w.request(t, 1, "resources/read", page); !strings.Contains(got, "<p>shop</p>") {
			t.Errorf("stateless %v: %s", stateless, got)
		}
		got := w.request(t, 2, "tools/call", `"name":"get.time","arguments":{"n":12345678901234567890}`)
		for _, want := range []string{
			`"structuredContent":{"n":12345678901234567890,"by":"shop","params":{"name":"get.time","arguments":{"n":12345678901234567890}`,
			`"_meta":{"ui":{"x":1.0},"of.page":[ ] }`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("stateless %v: no %s in %s", stateless, want, got)
			}
		}
	}
	got := calling(t, h, pageClient("x"), "refresh", "ui://shop/page.html")
	if got != "shop" {
		t.Error(got)
	}
	raw, err := h.Do(hosttest.Deadline(t), &protocol.Call{
		Session: pageClient("x"),
		Method:  protocol.MethodToolsCall,
		Params: json.RawMessage(`{"name":"refresh","arguments":{},` +
			`"_meta":{"ui":{"resourceUri":"ui://shop/page.html","y":[ ]},"own":1.0}}`),
	})
	if want := `"_meta":{"ui":{"resourceUri":"ui://shop/page.html","y":[ ]},"own":1.0}`; err != nil ||
		!strings.Contains(string(raw), want) {
		t.Errorf("%s, %v: the server was not sent %s", raw, err, want)
	}
}

// TestPagesOfALateServer states a page of a server that is still starting.
func TestPagesOfALateServer(t *testing.T) {
	processtest.Leaks(t)
	h := apps(t).Open(exthost.Options{Mode: hosttest.Background})
	if got := calling(t, h, pageClient("x"), "refresh", "ui://shop/page.html"); got != "shop" {
		t.Error(got)
	}
}

// TestPagesOfAToolset has a toolset that hides a server and renames the tools of another.
func TestPagesOfAToolset(t *testing.T) {
	processtest.Leaks(t)
	f := apps(t)
	cfg := f.Config()
	cfg.Toolsets = map[string]config.Toolset{
		"shopping": {Include: []string{"ext_shop_*"}, Exclude: []string{"ext_shop_find"}, Prefix: new("s_")},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	s := pageClient("x")
	s.Toolset = "shopping"
	for _, c := range [][3]string{
		{"refresh", "ui://shop/page.html", "shop"},
		{"s_shop_refresh", "ui://shop/page.html", "shop"},
		{"find", "ui://shop/page.html", `there is no tool "find"`},
		{"balance", "ui://bank/page.html", "no extension has the page"},
	} {
		if got := calling(t, h, s, c[0], c[1]); !strings.Contains(got, c[2]) {
			t.Errorf("%s of %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestSharedPage has a second server whose tool names the page of the first: the page, and its calls, stay with the
// first, and a diagnostic says so.
func TestSharedPage(t *testing.T) {
	processtest.Leaks(t)
	h := apps(t).
		Add("thief", appServer("", appTool("show", `{"resourceUri":"ui://shop/page.html"}`), appTool("refresh", ""))).
		Open(exthost.Options{})
	s := pageClient("x")
	if got := readPage(t, h, s, "ui://shop/page.html"); !strings.Contains(got, "<p>shop</p>") {
		t.Error(got)
	}
	if got := calling(t, h, s, "refresh", "ui://shop/page.html"); got != "shop" {
		t.Error(got)
	}
	if got := warnings(h, "resource_shadowed"); len(got) != 1 || !strings.HasPrefix(got[0], "thief: ") {
		t.Errorf("diagnostics %q", got)
	}
}
