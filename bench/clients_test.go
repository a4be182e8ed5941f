package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/benchtest"
)

// Revisions of MCP: the last one with sessions, and the first one without.
const legacy, modern = "2025-11-25", "2026-07-28"

// caller is a client of gateways that speaks one revision of MCP.
type caller struct {
	name     string
	revision string
	open     func(tb testing.TB, l benchtest.Load, url, revision, tool string) func() error
}

// clients are a raw one, which costs almost nothing itself, and the official SDK.
var clients = []caller{
	{"raw " + legacy, legacy, rawCaller},
	{"raw " + modern, modern, rawCaller},
	{"go-sdk " + legacy, legacy, sdkCaller},
	{"go-sdk " + modern, modern, sdkCaller},
}

// calls opens a session for each caller of the load and returns a function that makes a call in a free one.
func (c caller) calls(tb testing.TB, l benchtest.Load, url, tool string) func() error {
	tb.Helper()
	free := make(chan func() error, l.Callers)
	for range l.Callers {
		free <- c.open(tb, l, url, c.revision, tool)
	}
	return func() error {
		call := <-free
		defer func() { free <- call }()
		return call()
	}
}

func sdkCaller(tb testing.TB, l benchtest.Load, url, revision, tool string) func() error {
	return goSDKCaller(tb, l, &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}, revision, tool)
}

// connection is a client that writes prepared requests.
type connection struct {
	conn net.Conn
	in   *bufio.Reader
	url  *url.URL
}

// rawCaller connects, opens a session if the revision has them, and returns a function that makes the call.
func rawCaller(tb testing.TB, l benchtest.Load, address, revision, tool string) func() error {
	tb.Helper()
	at, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	c := &connection{conn, bufio.NewReader(conn), at}
	headers := http.Header{"Mcp-Protocol-Version": {revision}}
	meta := ""
	if revision == legacy {
		id := c.initialize(tb)
		if id != "" {
			headers.Set("Mcp-Session-Id", id)
		}
		if _, _, err := c.exchange(c.request(headers, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err !=
			nil {
			tb.Fatal(err)
		}
	} else {
		headers.Set("Mcp-Method", "tools/call")
		headers.Set("Mcp-Name", tool)
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision +
			`","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	args, err := json.Marshal(arguments(l))
	if err != nil {
		tb.Fatal(err)
	}
	call := c.request(headers, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, tool, args, meta))
	return func() error {
		_, body, err := c.exchange(call)
		if err == nil && (len(body) < l.Down || bytes.Contains(body, []byte(`"isError":true`)) ||
			bytes.Contains(body, []byte(`"error"`))) {
			err = fmt.Errorf("%w: %s", errSize, body)
		}
		return err
	}
}

// initialize opens a session and returns its id.
func (c *connection) initialize(tb testing.TB) string {
	tb.Helper()
	h, _, err := c.exchange(c.request(nil,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+legacy+
			`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err != nil {
		tb.Fatal(err)
	}
	return h.Get("Mcp-Session-Id")
}

func (c *connection) request(headers http.Header, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, "+
		"text/event-stream\r\nContent-Length: %d\r\n", c.url.Path, c.url.Host, len(body))
	_ = headers.Write(&b)
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

func (c *connection) exchange(request []byte) (http.Header, []byte, error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, nil, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", r.Status, body)
	}
	return r.Header, body, err
}
