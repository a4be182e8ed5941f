package httpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/status"
)

// verbs are the scripts of child processes.
var verbs = map[string]processtest.Verb{
	"peer":          servePeer,
	"official":      serveOfficial,
	"gateway":       serveGateway,
	"echo":          echoNative,
	"echo-official": echoOfficial,
	"least":         serveLeast,
	"bare":          serveBare,
	"fixed":         serveFixed,
}

// servePeer is an MCP server on stdin and stdout with tools: say returns its text, size that many bytes, environ a
// variable; die exits.
func servePeer(string) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string `json:"name"`
				Arguments struct {
					Text string `json:"text"`
					Size int    `json:"size"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		answer := `"error":{"code":-32601,"message":"no such method"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`
		case "tools/list":
			answer = `"result":{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			text := m.Params.Arguments.Text
			switch m.Params.Name {
			case "die":
				processtest.Exit(3)
			case "task": // sends a status now, and again at the next call with the same text
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"task":{"taskId":%q,"status":"working"}}}`+"\n", m.ID,
					text)
				continue
			case "tell":
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":%q,"status":"completed"}}`+"\n", text)
			case "hang": // text is a file to create as a signal
				fmt.Fprintln(os.Stderr, "hanging")
				if text != "" {
					_ = os.WriteFile(text, nil, 0o600)
				}
				continue
			case "size":
				text = strings.Repeat("x", m.Params.Arguments.Size)
			case "environ":
				text = os.Getenv(text)
			case "pid":
				text = fmt.Sprint(os.Getpid())
			}
			quoted, _ := json.Marshal(text)
			answer = `"result":{"content":[{"type":"text","text":` + string(quoted) + `}]}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
	}
}

// bridged serves a host with these destinations and returns its address. A destination of type stdio without a
// command runs servePeer.
func bridged(t testing.TB, all config.Destinations, o Options) (addr string, h *exthost.Host) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{t.TempDir()}
	cfg.Extensions.Defaults.Restart.BaseBackoff = new(manifest.Duration) // restarts come at once
	cfg.Destinations = config.Destinations{}
	for name, d := range all {
		d.StartTimeout = manifest.Duration(patience)
		if d.Type == config.DestinationStdio && d.Command == nil {
			d.Command, d.Cwd = manifest.Command{exe}, t.TempDir()
			d.Env = map[string]string{processtest.ScriptVar: "peer"}
		}
		cfg.Destinations[name] = d
	}
	h = openHost(t, cfg, exthost.Options{})
	o.Backend, o.Serves, o.Bridge = h, h.Serves, h.Bridge()
	return serve(t, o, nil), h
}

var stdioPeer = config.Destinations{"d": {Type: config.DestinationStdio}}

// sseStream is an MCP client of the older HTTP transport.
type sseStream struct {
	t      testing.TB
	base   string
	header http.Header
	post   string // the URL for its messages
	body   io.ReadCloser
	events *bufio.Reader
	id     int
}

// openStream connects to base+"/sse" and initializes.
func openStream(t testing.TB, base string, h http.Header) *sseStream {
	t.Helper()
	s := &sseStream{t: t, base: base, header: h}
	s.dial()
	s.send("initialize", `{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if answer := s.next(); !strings.Contains(answer, `"serverInfo"`) {
		t.Fatalf("initialize: %s", answer)
	}
	return s
}

// dial opens the stream on a new connection with small buffers.
func (s *sseStream) dial() {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context,
		network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		return c, err
	}}}
	s.t.Cleanup(client.CloseIdleConnections)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+"/sse", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range s.header {
		r.Header[name] = values
	}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("GET /sse: %s", resp.Status)
	}
	s.body, s.events = resp.Body, bufio.NewReader(resp.Body)
	s.t.Cleanup(func() { resp.Body.Close() })
	path := s.next()
	root := s.base[:strings.Index(s.base[len("http://"):]+"/", "/")+len("http://")]
	s.post = root + path
}

// next returns the data of the next event.
func (s *sseStream) next() string {
	s.t.Helper()
	for {
		line, err := s.events.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(data)
		}
	}
}

// send posts a request and returns its id.
func (s *sseStream) send(method, params string) int {
	s.t.Helper()
	s.id++
	r := send(s.t, http.MethodPost, s.post, s.header,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.id, method, params))
	if r.StatusCode != http.StatusAccepted {
		body, _ := io.ReadAll(r.Body)
		s.t.Fatalf("POST %s: %s %s", s.post, r.Status, body)
	}
	r.Body.Close()
	return s.id
}

// call calls a tool and returns the answer, which must be the next event.
func (s *sseStream) call(tool, arguments string) string {
	s.t.Helper()
	id := s.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	answer := s.next()
	if !strings.Contains(answer, fmt.Sprintf(`"id":%d,`, id)) {
		s.t.Fatalf("the answer to %d is %s", id, answer)
	}
	return answer
}

// text returns the text of a tool's result.
func text(t testing.TB, answer string) string {
	t.Helper()
	var m struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil || len(m.Result.Content) != 1 {
		t.Fatalf("no result: %s", answer)
	}
	return m.Result.Content[0].Text
}

// session is an MCP client of streamable HTTP.
type session struct {
	t      testing.TB
	url    string
	header http.Header
	id     int
}

func openSession(t testing.TB, url string, h http.Header) *session {
	t.Helper()
	s := &session{t: t, url: url, header: h.Clone()}
	if s.header == nil {
		s.header = http.Header{}
	}
	r := send(t, http.MethodPost, url, h, initialize)
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK || !strings.Contains(string(body), `"result"`) {
		t.Fatalf("initialize: %s %s", r.Status, body)
	}
	s.header["Mcp-Session-Id"] = r.Header["Mcp-Session-Id"]
	return s
}

// call calls a tool and returns the status and body of the answer.
func (s *session) call(tool, arguments string) (*http.Response, string) {
	s.t.Helper()
	s.id++
	r := send(s.t, http.MethodPost, s.url, s.header,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, s.id, tool,
			arguments))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Body.Close()
	return r, string(body)
}

// eventually polls until a condition is true.
func eventually(t testing.TB, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v", patience)
		}
	}
}

func inFlight(all []status.Instance) (n int) {
	for _, i := range all {
		n += i.InFlight
	}
	return n
}
