package mcpserver_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

func TestModernHeaders(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{})).URL + "/mcp"
	call := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{},` + metaOnly + `}}`
	future := strings.ReplaceAll(call, "2026-07-28", "2099-01-01")
	for name, test := range map[string]struct {
		body, header, value string // the header is set, or removed when value is ""
		status              int
		want                string
	}{
		"fine":              {call, "", "", 200, `"id":8,"result":{"resultType":"complete"`},
		"name in base64":    {call, "Mcp-Name", "=?base64?ZWNobw==?=", 200, `"result"`},
		"spaces":            {call, "Mcp-Name", "  echo ", 200, `"result"`},
		"no version":        {call, "Mcp-Protocol-Version", "", 400, `"id":8,"error":{"code":-32020`},
		"other version":     {future, "", "", 400, `"id":8,"error":{"code":-32020`},
		"future version":    {future, "Mcp-Protocol-Version", "2099-01-01", 400, `"code":-32022`},
		"no method":         {call, "Mcp-Method", "", 400, `"code":-32020`},
		"other method":      {call, "Mcp-Method", "TOOLS/CALL", 400, `"code":-32020`},
		"no name":           {call, "Mcp-Name", "", 400, `"code":-32020`},
		"other name":        {call, "Mcp-Name", "Echo", 400, `"code":-32020`},
		"bad base64":        {call, "Mcp-Name", "=?base64?*?=", 400, `"code":-32020`},
		"unfinished base64": {call, "Mcp-Name", "=?base64?ZWNobw==", 400, `"code":-32020`},
		"no meta":           {strings.Replace(call, ","+metaOnly, "", 1), "", "", 400, `"id":8,"error":{"code":-32602`},
		"no capabilities": {strings.Replace(call, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1), "", "",
			400, `"code":-32602`},
		"a response":     {`{"jsonrpc":"2.0","id":8,"result":{}}`, "", "", 400, ""},
		"a notification": {`{"jsonrpc":"2.0","method":"notifications/x"}`, "", "", 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := mirrored(test.body)
			if test.header != "" {
				h.Set(test.header, test.value)
			}
			if test.header != "" && test.value == "" {
				h.Del(test.header)
			}
			r := do(t, http.MethodPost, url, h, test.body)
			if got := text(t, r); r.StatusCode != test.status || !strings.Contains(got, test.want) {
				t.Errorf("%s: %s", r.Status, got)
			}
		})
	}
}

// Duplicate headers are refused, because a proxy may have read the other one.
func TestModernHeadersAreThereOnce(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{})).URL + "/mcp"
	call := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{},` + metaOnly + `}}`
	for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
		h := mirrored(call)
		h.Add(name, "other")
		if r := do(t, http.MethodPost, url, h, call); r.StatusCode != http.StatusBadRequest {
			t.Errorf("two of %s: %s %s", name, r.Status, text(t, r))
		}
	}
}

func TestModernStatus(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{})).URL + "/mcp"
	for _, test := range []struct {
		method, members string
		status          int
		want            string
	}{
		{"server/discover", ``, 200, `"io.modelcontextprotocol/serverInfo":{"name":"exthost","version":"0.0.0"}`},
		{"initialize", ``, 404, `"code":-32601`},
		{"ping", ``, 404, `"code":-32601`},
		{"logging/setLevel", ``, 404, `"code":-32601`},
		{"resources/subscribe", ``, 404, `"code":-32601`},
		{"test/unknown", ``, 404, `"code":-32601`},
		{"test/unencodable", ``, 200, `"code":-32603`},
		{"tools/call", `"name":"none"`, 200, `"code":-32602`},
		{"tools/call", `"name":"child"`, 400, `"code":-32021`},
		{"tools/call", `"name":"ask"`, 200, `"code":-32602,"message":"roots/list: the client cannot be asked anything`},
		{"subscriptions/listen", `"notifications":[]`, 400, `"code":-32602`},
	} {
		body := `{"jsonrpc":"2.0","id":3,"method":"` + test.method + `","params":{` +
			strings.TrimPrefix(test.members+","+metaOnly, ",") + `}}`
		r := do(t, http.MethodPost, url, mirrored(body), body)
		if got := text(t, r); r.StatusCode != test.status || !strings.Contains(got, test.want) ||
			r.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s {%s}: %s: %s", test.method, test.members, r.Status, got)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		r := do(t, method, url, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}, "")
		if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %s, Allow %q", method, r.Status, r.Header.Get("Allow"))
		}
	}
}

func TestModernCallerComesFromTheMiddleware(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	body := `{"jsonrpc":"2.0","id":3,"method":"x/y","params":{"caller":"root","_meta":{"caller":"root","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}`
	h := mirrored(body)
	h.Set("Caller", "alice")
	do(t, http.MethodPost, url, h, body)
	s := get(t, b.calls, "the call").Session
	if s.Caller != "alice" || s.ID != "" || string(s.Capabilities) != `{"roots":{}}` {
		t.Errorf("session %+v", s)
	}
}

// TestModernClientsAreToldApart checks how stateless HTTP clients are told apart.
func TestModernClientsAreToldApart(t *testing.T) {
	b := newFake()
	var log bytes.Buffer
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})).URL +
		"/mcp"
	instance := func(info string) string {
		body := `{"jsonrpc":"2.0","id":3,"method":"x/y","params":{"_meta":{` + info +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		do(t, http.MethodPost, url, mirrored(body), body)
		return get(t, b.calls, "the call").Session.Instance
	}
	const key = `"io.modelcontextprotocol/clientInfo":`
	one, other := instance(key+`{"name":"a","version":"1"},`), instance(key+`{"name":"a","version":"2"},`)
	if one == "" || one == other || one != instance(key+`{"version":"1","name":"a","title":"x"},`) || log.Len() > 0 {
		t.Errorf("instances %q and %q, log %s", one, other, &log)
	}
	for _, info := range []string{"", key + `7,`, key + `{"version":"1"},`} {
		if got := instance(info); got != "" {
			t.Errorf("a nameless client is %q", got)
		}
	}
	if strings.Count(log.String(), "cannot be told apart") != 1 {
		t.Errorf("log: %s", &log)
	}
}

func TestModernSubscription(t *testing.T) {
	b := newFake()
	s := mcpserver.New(b, mcpserver.Options{
		Capabilities: []byte(`{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{}}`),
	})
	url := serveHTTP(t, s).URL + "/mcp"
	listen := func(id, wanted string) <-chan string {
		body := `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":` + wanted +
			`,` + metaOnly + `}}`
		return events(do(t, http.MethodPost, url, mirrored(body), body).Body)
	}
	b.eager = true // the acknowledgement must come first nevertheless
	all := listen(`7`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x"]}`)
	want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`
	if got := get(t, all, "the acknowledgement"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	get(t, b.attached, "the session")
	none := listen(`8`, `{}`)
	get(t, none, "the acknowledgement")
	client := get(t, b.attached, "the session").Client
	b.announce()
	if got := get(t, all, "the change"); !strings.Contains(got, protocol.MethodToolsListChanged) ||
		!strings.Contains(got, `subscriptionId":7`) {
		t.Errorf("heard %s", got)
	}
	if _, err := client.Call(t.Context(), "roots/list", nil); err == nil {
		t.Error("a subscription was asked something")
	}
	s.Close()
	for id, heard := range map[string]<-chan string{"7": all, "8": none} {
		want := `{"jsonrpc":"2.0","id":` + id +
			`,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
		if got := get(t, heard, "the end"); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if _, more := <-heard; more {
			t.Error("a subscription outlives Close")
		}
	}
}

func TestModernSubscriptionEndsWithItsStream(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + metaOnly + `}}`
	r := do(t, http.MethodPost, url, mirrored(body), body)
	get(t, events(r.Body), "the acknowledgement")
	r.Body.Close()
	get(t, b.detached, "the session to be detached")
}
