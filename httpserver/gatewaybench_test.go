package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// benchClient is a client that calls a tool repeatedly.
type benchClient interface {
	call() error
	close()
}

// dialled is a client with one persistent connection and, in legacy versions, one session. Its requests are encoded
// in advance, so that the benchmark measures the server.
type dialled struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

// dialCaller connects and opens a session. The caller calls tool.
func dialCaller(addr, path, tool string) (*dialled, error) {
	c, err := dialRaw(addr)
	if err != nil {
		return nil, err
	}
	header, err := c.exchange(post(path, "", initialize))
	if err != nil {
		return nil, err
	}
	session := "Mcp-Session-Id: " + header.Get("Mcp-Session-Id") + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"
	if _, err := c.exchange(post(path, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		return nil, err
	}
	c.request = post(path, session,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`",`+benchArguments+`}}`)
	return c, nil
}

// dialModern connects. The caller calls tool by MCP 2026-07-28, and can be asked questions.
func dialModern(addr, path, tool string) (*dialled, error) {
	c, err := dialRaw(addr)
	if err != nil {
		return nil, err
	}
	c.request = post(path, "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: "+tool+"\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{"listChanged":true},"elicitation":{}}},`+
			`"name":"`+tool+`",`+benchArguments+`}}`)
	return c, nil
}

var benchArguments = `"arguments":{"text":"` + strings.Repeat("x", 100) + `"}`

func dialRaw(addr string) (*dialled, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &dialled{conn: conn, in: bufio.NewReader(conn)}, nil
}

func post(path, headers, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: "+
		"application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
}

func (c *dialled) exchange(request []byte) (http.Header, error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.StatusCode >= 300 || bytes.Contains(body, []byte(`"error"`)) {
		return nil, fmt.Errorf("%s %s", r.Status, body)
	}
	return r.Header, nil
}

func (c *dialled) call() error {
	_, err := c.exchange(c.request)
	return err
}

func (c *dialled) close() { c.conn.Close() }

// connected is a client of the official SDK with its own session and connection.
type connected struct {
	session   *mcp.ClientSession
	transport *http.Transport
	params    mcp.CallToolParams
}

func connectOfficial(addr, path, tool string) (*connected, error) {
	transport := new(http.Transport)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "official", Version: "1"},
		nil).Connect(context.Background(),
		&mcp.StreamableClientTransport{
			Endpoint:   "http://" + addr + path,
			HTTPClient: &http.Client{Transport: transport},
		}, nil)
	if err != nil {
		return nil, err
	}
	return &connected{
		session,
		transport,
		mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(strings.TrimPrefix(benchArguments, `"arguments":`))},
	}, nil
}

func (c *connected) call() error {
	result, err := c.session.CallTool(context.Background(), &c.params)
	if err == nil && result.IsError {
		err = fmt.Errorf("%v", result.Content)
	}
	return err
}

func (c *connected) close() {
	_ = c.session.Close()
	c.transport.CloseIdleConnections()
}

// way is one of the servers to compare, with one client for each of n callers.
func way[C benchClient](tb testing.TB, name string, n int, connect func(addr, path, tool string) (C, error),
	addr, path, tool string) benchtest.Way {
	tb.Helper()
	free := make(chan C, n)
	for range n {
		c, err := connect(addr, path, tool)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		tb.Cleanup(c.close)
		free <- c
	}
	return benchtest.Way{
		Name: name,
		Call: func() error {
			c := <-free
			defer func() { free <- c }()
			return c.call()
		},
	}
}

// gatewayLoads are the numbers of sessions of the comparisons, each with one caller.
func gatewayLoads() []benchtest.Load {
	one, many := benchtest.Sequential, benchtest.Callers64
	some := many
	some.Name, some.Callers = "callers16/100B", 16
	loads := []benchtest.Load{one, some, many}
	for i := range loads {
		loads[i].Calls /= 5
	}
	return loads
}

// BenchmarkGateway compares a call through the host with a call of the official SDK's server over HTTP, in both
// protocol versions. The minimal gateway is the lower bound for a gateway in front of that SDK's stdio server, which
// is slower than its HTTP server. The bare gateway in front of a native child is the lower bound for a gateway on
// net/http, and the fixed answer for any server on it.
func BenchmarkGateway(b *testing.B) {
	for _, revision := range []struct {
		name, direct string
		connect      func(addr, path, tool string) (*dialled, error)
	}{{"2025-11-25", "official", dialCaller}, {"2026-07-28", "official stateless", dialModern}} {
		for _, l := range gatewayLoads() {
			b.Run(revision.name+"/"+l.Name, func(b *testing.B) {
				direct, fixed, bare, least := run(b, revision.direct), run(b, "fixed"), run(b, "bare"), run(b, "least")
				native, official := run(b, "gateway echo"), run(b, "gateway echo-official")
				l.Compare(b, way(b, "direct", l.Callers, revision.connect, direct.addr, "/mcp", "echo"),
					way(b, "fixed", l.Callers, dialModern, fixed.addr, "/mcp", "echo"),
					way(b, "bare", l.Callers, dialModern, bare.addr, "/mcp", "echo"),
					way(b, "native", l.Callers, revision.connect, native.addr, "/mcp", "ext_x_echo"),
					way(b, "least", l.Callers, dialCaller, least.addr, "/mcp", "echo"),
					way(b, "official", l.Callers, revision.connect, official.addr, "/mcp", "ext_x_echo"))
				b.ReportMetric(float64(native.anonymous(b))/1024, "native-RssAnon-MiB")
				b.ReportMetric(float64(official.anonymous(b))/1024, "official-RssAnon-MiB")
			})
		}
	}
}

// BenchmarkGatewayClient is the same with the official SDK's client, which uses the newest protocol version of a
// server and costs more than the servers. [tbxarkVar] is the program of another gateway to compare with, which speaks
// 2025-11-25 with its child. The gateway "pinned" does the same, because the server of the official SDK takes longer
// for a call of the newer version.
func BenchmarkGatewayClient(b *testing.B) {
	for _, l := range gatewayLoads() {
		b.Run(l.Name, func(b *testing.B) {
			direct, native := run(b, "official stateless"), run(b, "gateway echo")
			official, pinned := run(b, "gateway echo-official"), run(b, "gateway echo-official 2025-11-25")
			ways := []benchtest.Way{way(b, "direct", l.Callers, connectOfficial, direct.addr, "/mcp", "echo")}
			if addr := runTBXark(b); addr != "" {
				ways = append(ways, way(b, "TBXark", l.Callers, connectOfficial, addr, "/x", "echo"))
			}
			l.Compare(b, append(ways, way(b, "native", l.Callers, connectOfficial, native.addr, "/mcp", "ext_x_echo"),
				way(b, "official", l.Callers, connectOfficial, official.addr, "/mcp", "ext_x_echo"),
				way(b, "pinned", l.Callers, connectOfficial, pinned.addr, "/mcp", "ext_x_echo"))...)
		})
	}
}

// tbxarkVar is the environment variable with the path of the program of github.com/tbxark/mcp-proxy.
const tbxarkVar = "EXTHOST_BENCH_TBXARK"

// runTBXark runs that gateway in front of a child with the official SDK and returns its address, or "" without the
// program.
func runTBXark(tb testing.TB) (addr string) {
	tb.Helper()
	program := os.Getenv(tbxarkVar)
	if program == "" {
		tb.Logf("TBXark mcp-proxy is left out: %s does not name its program", tbxarkVar)
		return ""
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port, because the program does not report its own
	if err != nil {
		tb.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	exe, _ := os.Executable()
	config, _ := json.Marshal(map[string]any{
		"mcpProxy": map[string]any{
			"baseURL": "http://" + addr,
			"addr":    addr,
			"name":    "proxy",
			"version": "1",
			"type":    "streamable-http",
		},
		"mcpServers": map[string]any{
			"x": map[string]any{
				"command": exe,
				"args":    []string{},
				"env":     map[string]string{processtest.ScriptVar: "echo-official"},
			},
		},
	})
	file := filepath.Join(tb.TempDir(), "config.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, "--config", file)
	if err := cmd.Start(); err != nil {
		tb.Fatalf("%s: %v", tbxarkVar, err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for began := time.Now(); time.Since(began) < patience; { // it serves the path once its child is up
		if c, err := connectOfficial(addr, "/x", "echo"); err == nil {
			defer c.close()
			return addr
		}
	}
	tb.Fatalf("%s: the gateway does not answer on %s", tbxarkVar, addr)
	return ""
}
