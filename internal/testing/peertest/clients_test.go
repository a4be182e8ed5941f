package peertest

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
)

// endpoint is an endpoint of the host and how to connect to it.
type endpoint struct {
	Transport string            `json:"transport"`         // stdio, http or sse
	Versions  string            `json:"versions"`          // legacy, modern or auto, which negotiates the best
	URL       string            `json:"url,omitempty"`     // URL of the HTTP server
	Command   []string          `json:"command,omitempty"` // command line of a host on stdio
	Env       map[string]string `json:"env,omitempty"`     // added to the client's default environment
	Token     string            `json:"token,omitempty"`   // of a named client, over HTTP
	Asks      bool              `json:"asks,omitempty"`    // the client shows forms, see person
	person    person
}

// person answers a form in a client with accept, decline or cancel. For gone, the client ends at once and closes
// nothing.
type person func(form string) (answer string)

// call is a tools/call that every client makes.
type call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// report is the output of a client.
type report struct {
	Version string   `json:"version"` // as negotiated; "" when the client does not tell
	Tools   []string `json:"tools"`
	Calls   []answer `json:"calls"`
}

// answer is the outcome of one call.
type answer struct {
	Result  *result `json:"result,omitempty"`
	Code    int     `json:"code,omitempty"` // code of a JSON-RPC error
	Message string  `json:"message,omitempty"`
}

type result struct {
	Content           []content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
}

type content struct {
	Text string `json:"text"`
}

// bundledTools are the registered names of the bundled tools, in list order.
var bundledTools = []string{
	"ext_calc_calculate",
	"ext_dates_between", "ext_dates_convert", "ext_dates_now", "ext_dates_shift",
	"ext_echo_echo", "ext_echo_ping",
	"ext_notes_add", "ext_notes_delete", "ext_notes_search",
	"ext_system_disk_free", "ext_system_kernel", "ext_system_uptime",
	"ext_tables_describe", "ext_tables_query",
	"ext_units_convert_convert",
}

// testCall is a call and its expected answer.
type testCall struct {
	call
	check func(t *testing.T, a answer)
}

// testCalls are calls to an extension of each kind, and two invalid ones.
var testCalls = []testCall{
	{call{"ext_echo_echo", args{"text": "Grüße, 日本 🎈"}}, says("Grüße, 日本 🎈")},                  // lite
	{call{"ext_notes_search", args{"query": "nothing"}}, structured(`{"notes":[],"total":0}`)}, // native
	{call{"ext_echo_echo", args{}}, fails("text")},

	{call{"ext_calc_calculate", args{"expression": "12345678901234567889 + 1"}}, says("12345678901234567890")}, // MCP
	// .mcp.json
	{call{"ext_units_convert_convert", args{"value": 1, "from": "km", "to": "m"}}, says("1 km = 1000 m")},
	{call{"ext_system_disk_free", args{"path": "/"}}, says("Filesystem")}, // exec
	{call{"ext_echo_ecko", args{}}, refused("ext_echo_echo")},
}

// quickCalls are for clients that are slow, or that do not call unlisted tools.
var quickCalls = testCalls[:3]

type args = map[string]any

func says(text string) func(*testing.T, answer) {
	return func(t *testing.T, a answer) {
		if a.Result == nil || a.Result.IsError || len(a.Result.Content) != 1 ||
			!strings.Contains(a.Result.Content[0].Text, text) {
			t.Errorf("got %s, want a text with %q", encode(a), text)
		}
	}
}

func structured(want string) func(*testing.T, answer) {
	return func(t *testing.T, a answer) {
		if a.Result == nil || a.Result.IsError || string(a.Result.StructuredContent) != want {
			t.Errorf("got %s, want the structured content %s", encode(a), want)
		}
	}
}

// fails expects a result that describes the invalid argument.
func fails(about string) func(*testing.T, answer) {
	return func(t *testing.T, a answer) {
		if a.Result == nil || !a.Result.IsError || len(a.Result.Content) != 1 ||
			!strings.Contains(a.Result.Content[0].Text, about) {
			t.Errorf("got %s, want a failure that names %q", encode(a), about)
		}
	}
}

// refused expects the error for an unknown tool.
func refused(meant string) func(*testing.T, answer) {
	return func(t *testing.T, a answer) {
		if a.Code != jsonrpc.CodeInvalidParams || !strings.Contains(a.Message, meant) {
			t.Errorf("got %s, want an error that proposes %s", encode(a), meant)
		}
	}
}

func encode(v any) string {
	out, _ := json.Marshal(v)
	return string(out)
}

// endpoints are all transports and protocol versions; the old SSE transport has legacy versions only.
var endpoints = []endpoint{
	{Transport: "stdio", Versions: "legacy"}, {Transport: "stdio", Versions: "auto"},
	{Transport: "stdio", Versions: "modern"},
	{Transport: "http", Versions: "legacy"}, {Transport: "http", Versions: "auto"},
	{Transport: "http", Versions: "modern"},
	{Transport: "sse", Versions: "legacy"},
}

// speaks returns the version that a client of legacy and modern versions negotiates.
func (p endpoint) speaks() string {
	if p.Versions == "legacy" {
		return legacyVersion
	}
	return modernVersion
}

// clients are the programs that visit the host, with the versions that each speaks.
var clients = []struct {
	name      string
	product   string // see version
	versions  []string
	testCalls []testCall
	report    func(t *testing.T, h *host, p endpoint, calls []call) report
}{
	{
		"go", "go github.com/modelcontextprotocol/go-sdk", []string{"legacy", "auto", "modern"}, testCalls,
		reportOf(func(*host) string { return os.Args[0] }, "goClient"),
	},
	{
		"typescript-v1", "npm @modelcontextprotocol/sdk", []string{"legacy"}, testCalls,
		reportFrom("testdata/client-v1.mjs"),
	},
	{
		"typescript-v2", "npm @modelcontextprotocol/client", []string{"legacy", "auto", "modern"}, testCalls,
		reportFrom("testdata/client-v2.mjs"),
	},
	{
		"python-v1", "venv mcp", []string{"legacy"}, testCalls,
		reportFromPython("venv", "testdata/client-v1.py"),
	},
	{
		"python-v2", "venv2 mcp", []string{"legacy", "auto", "modern"}, testCalls,
		reportFromPython("venv2", "testdata/client-v2.py"),
	},
	{
		"inspector", "npm @modelcontextprotocol/inspector", []string{"legacy", "auto", "modern"}, quickCalls,
		reportFromInspector,
	},
}

// TestClients lists and calls tools of the bundled extensions with every client, on every
// endpoint it supports.
func TestClients(t *testing.T) {
	h := newHost(t, bundled(t))
	url := h.listen(t)
	for _, client := range clients {
		calls := make([]call, len(client.testCalls))
		for i, e := range client.testCalls {
			calls[i] = e.call
		}
		product := h.peers.version(t, client.product)
		for _, p := range endpoints {
			if !slices.Contains(client.versions, p.Versions) {
				continue
			}
			t.Run(client.name+"/"+p.Transport+"/"+p.Versions, func(t *testing.T) {
				v := client.report(t, h, h.at(p, url), calls)
				checkVisit(t, p, v)
				t.Log(product)
				for i, a := range v.Calls {
					client.testCalls[i].check(t, a)
				}
				if len(v.Calls) != len(calls) {
					t.Errorf("%d answers to %d calls", len(v.Calls), len(calls))
				}
			})
		}
	}
}

// at fills in the address of the host.
func (h *host) at(p endpoint, url string) endpoint {
	switch p.Transport {
	case "stdio":
		p.Command, p.Env = h.argv("--stdio"), map[string]string{"GORACE": promptExit}
	case "http":
		p.URL = url + "/mcp"
	case "sse":
		p.URL = url + "/sse"
	}
	return p
}

func checkVisit(t *testing.T, p endpoint, v report) {
	t.Helper()
	if v.Version != "" && v.Version != p.speaks() {
		t.Errorf("the client and the host speak %s, want %s", v.Version, p.speaks())
	}
	if diff := cmp.Diff(bundledTools, v.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// transport returns the transport of the official Go client; command starts a host on stdio.
func (p endpoint) transport(command *exec.Cmd, http *http.Client) mcp.Transport {
	switch p.Transport {
	case "http":
		return &mcp.StreamableClientTransport{Endpoint: p.URL, HTTPClient: http}
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: p.URL, HTTPClient: http}
	}
	return &mcp.CommandTransport{Command: command}
}

// pinned returns the version that the official Go client is to speak; "" negotiates.
func (p endpoint) pinned() *mcp.ClientSessionOptions {
	version := map[string]string{"legacy": legacyVersion, "modern": modernVersion, "auto": ""}[p.Versions]
	return &mcp.ClientSessionOptions{ProtocolVersion: version}
}

// connectGo connects the official Go client; the test's cleanup closes the session.
func connectGo(t *testing.T, h *host, p endpoint, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	var command *exec.Cmd
	if p.Transport == "stdio" {
		command = h.command(p.Command)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, o)
	session, err := client.Connect(deadline(t), p.transport(command, newHTTPClient(t)), p.pinned())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("closing the session: %v", err)
		}
	})
	return session
}
