package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// A client may write all requests and close stdin before it reads an answer.
func TestStdioAnswersRequestsBeforeEOF(t *testing.T) {
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer out.Close()
	heard := lines(out)
	_, _ = io.WriteString(in, "\xef\xbb\xbf"+initialize+"\r\n\n"+initialized+"\n"+
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // without a newline
	in.Close()
	if err := mcpserver.New(newFake(), mcpserver.Options{}).ServeStdio(t.Context(), r, w); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	if first := get(t, heard, "the handshake"); !strings.Contains(first, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("the first answer is %s", first)
	}
	rest := get(t, heard, "an answer") + get(t, heard, "another")
	for _, want := range []string{`"id":1,"result":{"content"`, `"id":2,"result":{}`} {
		if !strings.Contains(rest, want) {
			t.Errorf("no %s in %s", want, rest)
		}
	}
}

// An answer larger than the pipe is delivered even if the client reads late.
func TestStdioAnswersAreFlushed(t *testing.T) {
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer out.Close()
	b := newFake()
	ended := make(chan error, 1)
	go func() { ended <- mcpserver.New(b, mcpserver.Options{}).ServeStdio(context.Background(), r, w) }()
	long := strings.Repeat("x", 1<<20)
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"long":"`+long+`",`+metaOnly+`}}`+"\n")
	get(t, b.calls, "the call")
	in.Close()
	if got := get(t, lines(out), "the answer"); !strings.Contains(got, long) {
		t.Errorf("the answer has %d bytes", len(got))
	}
	if err := get(t, ended, "ServeStdio"); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
}

func TestStdioDrainIsBounded(t *testing.T) {
	b := newFake()
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer out.Close()
	heard := lines(out)
	s := mcpserver.New(b, mcpserver.Options{DrainTimeout: time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(context.Background(), r, w) }()
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang",`+metaOnly+`}}`+
		"\n")
	get(t, b.calls, "the call")
	in.Close()
	if err := get(t, ended, "ServeStdio"); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	if got := get(t, heard, "the answer"); !strings.Contains(got, `"id":1,"error":{"code":-32015`) {
		t.Errorf("the cancelled call was answered with %s", got)
	}
}

// A call in flight when the context ends is still answered.
func TestStdioAnswersAfterItsContext(t *testing.T) {
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer in.Close()
	defer out.Close()
	heard := lines(out)
	b := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mcpserver.New(b, mcpserver.Options{}).ServeStdio(ctx, r, w) }()
	_, _ = io.WriteString(in, initialize+"\n"+
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"finish"}}`+"\n")
	get(t, heard, "the answer to initialize")
	get(t, b.calls, "the call")
	cancel()
	get(t, b.detached, "the end of the session")
	close(b.finish)
	if got := get(t, heard, "the answer"); !strings.Contains(got, `"id":1,"result"`) {
		t.Errorf("the call in flight was answered with %s", got)
	}
	if err := get(t, ended, "ServeStdio"); !errors.Is(err, context.Canceled) {
		t.Errorf("ServeStdio: %v", err)
	}
}

func TestStdioEndsWithItsContext(t *testing.T) {
	b := newFake()
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer in.Close()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mcpserver.New(b, mcpserver.Options{}).ServeStdio(ctx, r, w) }()
	_, _ = io.WriteString(in, initialize+"\n"+`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`+
		"\n")
	get(t, b.calls, "the call")
	cancel()
	if err := get(t, ended, "ServeStdio"); !errors.Is(err, context.Canceled) {
		t.Errorf("ServeStdio: %v", err)
	}
	get(t, b.ended, "the call to end")
	get(t, b.detached, "the session to be detached")
}

func TestStdioRefusals(t *testing.T) {
	in, out := serveStdio(t, mcpserver.New(newFake(), mcpserver.Options{}))
	heard := lines(out)
	meta := func(version, capabilities string) string {
		return `{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `"` + capabilities + `}}`
	}
	capable := `,"io.modelcontextprotocol/clientCapabilities":{}`
	for _, test := range []struct{ send, want string }{
		{`hello`, `"id":null,"error":{"code":-32700`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"id":null,"error":{"code":-32600`},
		{`{"id":1,"method":"ping"}`, `"id":1,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `"id":1,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"id":1,"error":{"code":-32600,"message":"not initialized`},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, `"id":1,"error":{"code":-32601`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `"id":1,"error":{"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + meta("2099-01-01", capable) + `}`,
			`"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + meta("2026-07-28", "") + `}`,
			`"error":{"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + meta("2026-07-28", capable) + `}`,
			`"error":{"code":-32601`},
		{`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":` + meta("2026-07-28", capable) + `}`,
			`"error":{"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":` + meta("2026-07-28", capable) + `}`,
			`"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01"}}`,
			`"protocolVersion":"2025-11-25"`},
		{initialize, `"error":{"code":-32600,"message":"the session is already initialized"`},
	} {
		_, _ = io.WriteString(in, test.send+"\n")
		if got := get(t, heard, "an answer"); !strings.Contains(got, test.want) {
			t.Errorf("%s\n got %s\nwant %s", test.send, got, test.want)
		}
	}
}

func TestStdioEndsAfterInvalidLines(t *testing.T) {
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer in.Close()
	defer out.Close()
	_, _ = io.WriteString(in, strings.Repeat("noise\n", 64))
	if err := mcpserver.New(newFake(), mcpserver.Options{}).ServeStdio(t.Context(), r, w); err == nil {
		t.Error("ServeStdio took 64 lines of noise for a good end")
	}
}

func TestStdioRefusedSession(t *testing.T) {
	b := newFake()
	b.refuse = protocol.Errorf(protocol.ShuttingDown, "come back later")
	in, out := serveStdio(t, mcpserver.New(b, mcpserver.Options{}))
	heard := lines(out)
	for _, test := range []struct{ send, want string }{
		{initialize, `"error":{"code":-32030`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"error":{"code":-32600,"message":"not initialized`},
		{initialize, `"error":{"code":-32030`},
	} {
		_, _ = io.WriteString(in, test.send+"\n")
		if got := get(t, heard, "an answer"); !strings.Contains(got, test.want) {
			t.Errorf("%s\n got %s\nwant %s", test.send, got, test.want)
		}
	}
}

func TestStdioNotifiesTheBackend(t *testing.T) {
	b := newFake()
	c := rawStdio(t, mcpserver.New(b, mcpserver.Options{}))
	c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	if call := get(t, b.calls, "the notification"); !call.Notify || call.Method != "notifications/roots/list_changed" {
		t.Errorf("%+v", call)
	}
}

// Notifications and requests can be sent to a session outside of its requests.
func TestStdioSessionClient(t *testing.T) {
	b := newFake()
	in, out := serveStdio(t, mcpserver.New(b, mcpserver.Options{}))
	c := &rawClient{send: writeLines(in), heard: lines(out)}
	c.send(initialize)
	get(t, c.heard, "the handshake")
	client := get(t, b.attached, "the session").Client
	if _, err := client.Call(t.Context(), "roots/list", nil); protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("asking before the handshake is over: %v", err)
	}
	if err := client.Notify(t.Context(), protocol.MethodToolsListChanged, nil); err != nil {
		t.Errorf("telling before the handshake is over: %v", err)
	}
	c.request(`9`, "ping2", ``)
	get(t, c.heard, "an answer")
	answered := make(chan string, 1)
	go func() {
		answer, err := client.Call(context.Background(), "roots/list", []byte(`{"a":1}`))
		answered <- string(answer) + errorText(err)
	}()
	request := get(t, c.heard, "the request")
	id := regexp.MustCompile(`^{"jsonrpc":"2.0","id":(\d+),"method":"roots/list","params":{"a":1}}$`).FindStringSubmatch(request)
	if id == nil {
		t.Fatalf("request %s", request)
	}
	c.send(`{"jsonrpc":"2.0","id":77,"result":{}}`) // a response to no request
	c.send(`{"jsonrpc":"2.0","id":` + id[1] + `,"error":{"code":-5,"message":"no","data":[12345678901234567890]}}`)
	if got := get(t, answered, "the answer"); got != "no (extension_error)" {
		t.Errorf("answer %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := client.Call(ctx, "roots/list", nil)
		answered <- errorText(err)
	}()
	last, _ := strconv.ParseUint(id[1], 10, 64)
	get(t, c.heard, "the request")
	cancel()
	if got := get(t, c.heard, "its withdrawal"); !strings.Contains(got,
		fmt.Sprintf(`"notifications/cancelled","params":{"requestId":%d}`, last+1)) {
		t.Errorf("withdrawal %s", got)
	}
	if got := get(t, answered, "the end of the request"); got != "context canceled" {
		t.Errorf("the request ended with %s", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Over stdio subscriptions share the stream, and are answered when it ends.
func TestStdioSubscription(t *testing.T) {
	b := newFake()
	r, in, _ := os.Pipe()
	out, w, _ := os.Pipe()
	defer out.Close()
	ended := make(chan error, 1)
	go func() { ended <- mcpserver.New(b, mcpserver.Options{}).ServeStdio(context.Background(), r, w) }()
	c := &rawClient{stateless: true, send: writeLines(in), heard: lines(out)}
	c.request(`"s"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`)
	id := `"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}`
	want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},` + id + `}}`
	if got := get(t, c.heard, "the acknowledgement"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	client := get(t, b.attached, "the session").Client
	_ = client.Notify(t.Context(), "notifications/prompts/list_changed", nil)
	_ = client.Notify(t.Context(), protocol.MethodToolsListChanged, []byte(`{"n":1,"_meta":{"x":2}}`))
	want = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":1,"_meta":{"x":2,"io.modelcontextprotocol/subscriptionId":"s"}}}`
	if got := get(t, c.heard, "the change"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if _, err := client.Call(t.Context(), "roots/list", nil); err == nil {
		t.Error("a subscription was asked something")
	}
	in.Close()
	if got := get(t, c.heard, "the end"); got !=
		`{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete",`+id+`}}` {
		t.Errorf("the subscription ended with %s", got)
	}
	if err := get(t, ended, "ServeStdio"); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
}
