//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// collector is an OpenTelemetry collector.
type collector struct {
	*httptest.Server
	down  atomic.Bool   // refuse everything
	more  chan struct{} // holds a token when there are new spans
	mu    sync.Mutex    // guards the fields below
	spans []*tracepb.Span
	about string // resources of the spans
	raw   []byte // everything that was sent
	auth  map[string]bool
}

func newCollector(t *testing.T) *collector {
	c := &collector{more: make(chan struct{}, 1), auth: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.down.Load() {
		http.Error(w, "no, with "+r.Header.Get("Authorization"), http.StatusForbidden)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	data, err := io.ReadAll(body)
	var sent coltrace.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &sent) != nil {
		http.Error(w, "this is no trace", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, data...)
	c.auth[r.Header.Get("Authorization")] = true
	for _, of := range sent.ResourceSpans {
		c.about += of.Resource.String()
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// trace waits for the span of a call below its caller's span, and returns it with its children. They are all in the
// batch with the first of them.
func (c *collector) trace(t *testing.T, parent string) (call *tracepb.Span, parts []*tracepb.Span) {
	t.Helper()
	id, span := parent[3:35], parent[36:52]
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		call, parts = nil, nil
		for _, s := range c.spans {
			switch {
			case hex.EncodeToString(s.TraceId) != id:
			case hex.EncodeToString(s.ParentSpanId) == span:
				call = s
			default:
				parts = append(parts, s)
			}
		}
		c.mu.Unlock()
		if call != nil { // the call's span ends last
			return call, parts
		}
		select {
		case <-c.more:
		case <-timeout:
			t.Fatalf("there is no span below %s among %v", parent, c.spans)
		}
	}
}

func attributes(s *tracepb.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// tracedServer is an MCP server on stdio that responds with the traceparent of the request.
const tracedServer = `while read -r line; do
	id=${line##*\"id\":}; id=${id%%[!0-9]*}
	parent=${line##*\"traceparent\":\"}; parent=${parent%%\"*}
	case $line in
	*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
	*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}}' ;;
	*'"traceparent"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"canary-result '$parent'."}]}}' ;;
	*'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"no trace"}]}}' ;;
	*'"id":'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"unknown"}}' ;;
	esac
done
`

const tracedManifest = `
[plugin]
id = "kit"
version = "0.1.0"
[transport]
command = "sh"
args = ["server.sh"]
protocol = "mcp"
`

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// tracedCall returns a tools/call with a trace in _meta, unless parent is "".
func tracedCall(id int, tool, parent string, modern bool) string {
	var meta []string
	if modern {
		meta = append(meta, modernMeta)
	}
	if parent != "" {
		meta = append(meta, `"traceparent":"`+parent+`","tracestate":"vendor=1"`)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"canary-argument"},"_meta":{%s}}}`, id, tool, strings.Join(meta, ","))
}

// post makes a request to /mcp of a host, and returns the response and the session.
func post(t *testing.T, url, body string, header map[string]string) (answer, session string) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	header["Content-Type"], header["Accept"] = "application/json", "application/json, text/event-stream"
	for name, value := range header {
		req.Header.Set(name, value)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), resp.Header.Get("Mcp-Session-Id")
}

func parentOf(n int) string { return fmt.Sprintf("00-%032x-%016x-01", 0xabc0+n, 0xdef0+n) }

// A call has one span below its caller's, with a child for each stage, over HTTP and stdio and in both revisions of
// MCP. Servers on stdio and over HTTP get the trace context of the instance. No span has arguments or results, and no
// file or output contains the token of the collector.
func TestTraces(t *testing.T) {
	processtest.Leaks(t)
	c := newCollector(t)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		result := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		switch m.Method {
		case "initialize":
		case "tools/list":
			result = `{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":"canary-result ` + r.Header.Get("Traceparent") + `."}]}`
		default:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer remote.Close()
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": tracedManifest, "extensions/kit/server.sh": tracedServer,
		"extensions/far/plugin.toml": "[plugin]\nid = \"far\"\nversion = \"0.1.0\"\n[transport]\nkind = " +
			"\"http\"\nurl = \"" + remote.URL + "\"\n",
		"collector-token/collector": "canary-token",
		"exthost.yaml": "otel: {endpoint: 'http://127.0.0.1:9'}\nplugins: [{name: size, category: " +
			"content, builtin: size_cap, required: true, config: {max_bytes: 1000000}}]\n",
	})
	settings := "otel: {endpoint: '" + c.URL +
		"', headers: {Authorization: 'Bearer secret://collector'}, service: tested}\nsecrets: {provider: file, " +
		"path: '" + dir + "/collector-token'}\n"
	if err := errors.Join(os.Chmod(dir+"/collector-token/collector", 0o600),
		os.MkdirAll(dir+"/config-home/exthost", 0o700),
		os.WriteFile(dir+"/config-home/exthost/exthost.yaml", []byte(settings), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, dir)
	modern := map[string]string{
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "tools/call",
		"Mcp-Name":             "ext_kit_say",
	}
	opened, session := post(t, s.url,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, map[string]string{})
	if session == "" {
		t.Fatal(opened)
	}
	legacy := map[string]string{"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
	stdio, stdioModern := startClient(t, dir), startClient(t, dir)
	stdio.open(t)
	with := func(header map[string]string, more ...string) map[string]string {
		all := map[string]string{}
		for name, value := range header {
			all[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	for n, tt := range []struct {
		name, tool, version, transport string
		call                           func(parent string) string
	}{
		{"HTTP, legacy, _meta", "ext_kit_say", "2025-11-25", "tcp", func(p string) string {
			answer, _ := post(t, s.url, tracedCall(2, "ext_kit_say", p, false), legacy)
			return answer
		}},
		{"HTTP, legacy, header", "ext_kit_say", "2025-11-25", "tcp", func(p string) string {
			answer, _ := post(t, s.url, tracedCall(3, "ext_kit_say", "", false),
				with(legacy, "Traceparent", p, "Tracestate", "vendor=1"))
			return answer
		}},
		{"HTTP, modern, _meta", "ext_kit_say", "2026-07-28", "tcp", func(p string) string {
			answer, _ := post(t, s.url, tracedCall(4, "ext_kit_say", p, true), modern)
			return answer
		}},
		{"HTTP, modern, header", "ext_kit_say", "2026-07-28", "tcp", func(p string) string {
			answer, _ := post(t, s.url, tracedCall(5, "ext_kit_say", "", true),
				with(modern, "Traceparent", p, "Tracestate", "vendor=1"))
			return answer
		}},
		{"stdio, legacy", "ext_kit_say", "2025-11-25", "pipe",
			func(p string) string { return stdio.say(t, tracedCall(6, "ext_kit_say", p, false)) }},
		{"stdio, modern", "ext_kit_say", "2026-07-28", "pipe",
			func(p string) string { return stdioModern.say(t, tracedCall(7, "ext_kit_say", p, true)) }},
		{"a remote server", "ext_far_say", "2025-11-25", "pipe",
			func(p string) string { return stdio.say(t, tracedCall(8, "ext_far_say", p, false)) }},
	} {
		parent := parentOf(n)
		answer := tt.call(parent)
		told := regexp.MustCompile(`canary-result (00-[0-9a-f]{32}-[0-9a-f]{16}-01)\.`).FindStringSubmatch(answer)
		if told == nil {
			t.Errorf("%s: the server was told no trace: %s", tt.name, answer)
			continue
		}
		call, parts := c.trace(t, parent)
		if call.Name != "tools/call "+tt.tool || call.Kind != tracepb.Span_SPAN_KIND_SERVER ||
			call.TraceState != "vendor=1" {
			t.Errorf("%s: the span of the call is %v", tt.name, call)
		}
		got := attributes(call)
		want := map[string]string{
			"mcp.method.name":       "tools/call",
			"gen_ai.operation.name": "execute_tool",
			"gen_ai.tool.name":      tt.tool,
			"mcp.protocol.version":  tt.version,
			"network.transport":     tt.transport,
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", tt.name, key, got[key], value)
			}
		}
		if (got["mcp.session.id"] == "") != (tt.version == "2026-07-28") || got["error.type"] != "" ||
			got["exthost.decision.id"] == "" {
			t.Errorf("%s: %v", tt.name, got)
		}
		var names []string
		slices.SortStableFunc(parts,
			func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
		for _, p := range parts {
			names = append(names, attributes(p)["exthost.stage"])
			if !bytes.Equal(p.ParentSpanId, call.SpanId) || p.StartTimeUnixNano < call.StartTimeUnixNano ||
				p.EndTimeUnixNano > call.EndTimeUnixNano {
				t.Errorf("%s: %v is not within %v", tt.name, p, call)
			}
			if attributes(p)["exthost.stage"] == "instance" &&
				(told[1] != fmt.Sprintf("00-%x-%x-01", p.TraceId, p.SpanId) ||
					p.Kind != tracepb.Span_SPAN_KIND_CLIENT) {
				t.Errorf("%s: the server was told %s, and the span of the instance is %v", tt.name, told[1], p)
			}
		}
		if diff := cmp.Diff([]string{"request_policies", "queue", "instance", "response_policies"}, names); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	calls, err := program(dir, "calls", "-o", "json").Output()
	if err != nil || !strings.Contains(string(calls), `"trace_id": "`+parentOf(0)[3:35]+`"`) {
		t.Errorf("%v: %s", err, calls)
	}
	said := map[string]string{"exthost calls": string(calls)}
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}, {"config", "show"}, {"logs"}, {"validate"}} {
		out, err := program(dir, args...).CombinedOutput()
		if said[args[0]] += string(out); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	if !regexp.MustCompile(`traces to ` + c.URL + `/v1/traces: [1-9]\d* spans sent`).MatchString(said["status"]) {
		t.Errorf("the status is\n%s", said["status"])
	}
	if !strings.Contains(said["validate"],
		"otel: ignored, because a project's file cannot say where traces of the user's calls are sent") {
		t.Errorf("a project's file may choose the collector: %s", said["validate"])
	}
	_, metrics := request(t, strings.TrimSuffix(s.url, "/mcp")+"/metrics", "")
	if !regexp.MustCompile(`exthost_spans_total\{outcome="sent"\} [1-9]`).MatchString(metrics) {
		t.Error("the metrics have no spans")
	}
	stdio.leave(t)
	stdioModern.leave(t)
	if code := s.end(t, os.Interrupt); code != 0 {
		t.Errorf("exit code %d", code)
	}
	said["stderr"] = s.stderr.String()
	for where, text := range said {
		if strings.Contains(text, "canary") {
			t.Errorf("%s has a secret:\n%s", where, text)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Contains(c.raw, []byte("canary")) || bytes.Contains(c.raw, []byte(dir)) {
		t.Error("the spans have arguments, results, secrets or paths")
	}
	if !c.auth["Bearer canary-token"] || len(c.auth) != 1 {
		t.Errorf("the collector was shown %v", c.auth)
	}
	for _, want := range []string{"service.name", "tested", "service.version", "telemetry.sdk.name"} {
		if !strings.Contains(c.about, want) {
			t.Errorf("the resource lacks %s: %s", want, c.about)
		}
	}
}

// A collector that is down does not delay calls and is logged once. Pending spans are sent when the host ends.
func TestCollectorThatIsDown(t *testing.T) {
	processtest.Leaks(t)
	c := newCollector(t)
	c.down.Store(true)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "canary-header-without-a-name,Authorization=Bearer%20canary-token")
	t.Setenv("OTEL_SERVICE_NAME", "by-variable")
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	s := startServe(t, dir)
	for range 3 {
		s.call(t, "ext_kit_say", `{}`)
		s.stderr.await(t, "traces cannot be sent")
	}
	out, err := program(dir, "status").Output()
	if err != nil || !regexp.MustCompile(`traces to \S+: 0 spans sent, [1-9]\d* lost: .*403 Forbidden`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
	c.down.Store(false)
	s.call(t, "ext_kit_say", `{}`)
	s.stderr.await(t, "traces are sent again")
	if code := s.end(t, os.Interrupt); code != 0 || strings.Count(s.stderr.String(), "traces cannot be sent") != 1 ||
		strings.Contains(s.stderr.String(), "canary") {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if !strings.Contains(c.about, "by-variable") {
		t.Errorf("the resource is %s", c.about)
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000") // nothing is sent before the end
	s = startServe(t, dir)
	parent := parentOf(1)
	post(t, s.url, tracedCall(1, "ext_kit_say", parent, true),
		map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ext_kit_say"})
	if code := s.end(t, os.Interrupt); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if call, _ := c.trace(t, parent); call.Name != "tools/call ext_kit_say" {
		t.Errorf("%v", call)
	}
}

// Without a collector a trace context is passed on unchanged, and a call without one gets none.
func TestTraceContextPassesWithoutCollector(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": tracedManifest,
		"extensions/kit/server.sh":   tracedServer,
	})
	for _, off := range []string{
		"",
		"OTEL_SDK_DISABLED=true",
		"OTEL_TRACES_EXPORTER=none",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
	} {
		t.Run(off, func(t *testing.T) {
			if name, value, ok := strings.Cut(off, "="); ok {
				t.Setenv(name, value)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
			}
			s := startServe(t, dir)
			modern := map[string]string{
				"MCP-Protocol-Version": "2026-07-28",
				"Mcp-Method":           "tools/call",
				"Mcp-Name":             "ext_kit_say",
			}
			for parent, want := range map[string]string{
				parentOf(1): "canary-result " + parentOf(1) + ".",
				"":          "no trace",
			} {
				if answer, _ := post(t, s.url, tracedCall(2, "ext_kit_say", parent, true),
					modern); !strings.Contains(answer, want) {
					t.Errorf("with %q: %s", parent, answer)
				}
			}
			if out, err := program(dir, "status", "-o", "json").Output(); err != nil ||
				strings.Contains(string(out), `"tracing"`) {
				t.Errorf("%v: %s", err, out)
			}
			if code := s.end(t, os.Interrupt); code != 0 ||
				strings.Contains(s.stderr.String(), "only http/protobuf and http/json") !=
					strings.HasSuffix(off, "grpc") {
				t.Errorf("exit code %d: %s", code, s.stderr)
			}
		})
	}
}
