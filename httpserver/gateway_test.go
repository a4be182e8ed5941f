package httpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// echoNative is an extension that returns its arguments.
func echoNative(string) {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{
		Name:        "echo",
		Description: "Returns its arguments.",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	},
		func(_ context.Context, in json.RawMessage) (protocol.ToolResult, error) {
			return protocol.ToolResult(`{"content":[{"type":"text","text":` + strconv.Quote(string(in)) + `}]}`), nil
		})
	processtest.Exit(x.Main())
}

// officialEcho is the same extension written with the official SDK.
func officialEcho() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "official", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	return s
}

func echoOfficial(string) {
	_ = officialEcho().Run(context.Background(), &mcp.StdioTransport{})
}

// serveOfficial serves officialEcho over HTTP without a gateway. Version 2026-07-28 needs a stateless server.
func serveOfficial(kind string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := officialEcho()
	fmt.Println(l.Addr())
	_ = http.Serve(l, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: kind == "stateless"}))
}

// serveGateway serves a host with one extension, which runs the given verb with the protocol version that may follow
// it.
func serveGateway(child string) {
	child, version, _ := strings.Cut(child, " ")
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	exe, _ := os.Executable()
	const sessions = 2048 // after a stall all call at once, and the queue must hold one call of each
	manifest := fmt.Sprintf("[plugin]\nid = \"x\"\nversion = \"1.0.0\"\n[capabilities]\ntools = "+
		"[\"echo\"]\n[runtime]\nmax_queue = %d\n[transport]\ncommand = %q\nenv = { %s = %q }\nprotocol = %q\n",
		sessions, exe, processtest.ScriptVar, child,
		map[string]string{"echo": "native"}[child]+map[string]string{"echo-official": "mcp"}[child])
	if version != "" {
		manifest += fmt.Sprintf("mcp_version = %q\n", version)
	}
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o755); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x", "plugin.toml"), []byte(manifest), 0o600); err != nil {
		panic(err)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, err := exthost.Open(ctx, cfg, exthost.Options{StateDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer h.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { // runs until the process ends
		for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
			runtime.GC() // the content of pools survives one collection
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			stacks := uint64(runtime.NumGoroutine()) * (2 << 10) // StackInuse includes stacks kept for later goroutines
			fmt.Println("uses", m.HeapAlloc+stacks)
		}
	}()
	o := Options{Backend: h, Serves: h.Serves, Bridge: h.Bridge()}
	o.MCP.MaxSessions = sessions
	_ = New(o).Serve(ctx, l)
}

// serveLeast is a minimal gateway in front of a child with the official SDK: it reads a call from HTTP, writes it to
// the child, and returns the result.
func serveLeast(string) {
	conn := startChild("echo-official")
	first, _ := jsonrpc.Decode([]byte(initialize))
	hello := ask(conn, first.Method, first.Params)
	answer(func(body []byte) []byte {
		m, err := jsonrpc.Decode(body)
		switch {
		case err != nil || m.ID == nil:
			return nil
		case m.Method == "initialize":
			return hello
		}
		return ask(conn, m.Method, m.Params)
	})
}

// serveBare makes the same call of a native child for each request without reading it: the cost of net/http and
// pipes.
func serveBare(string) {
	conn, params := startChild("echo"), json.RawMessage(`{"name":"echo",`+benchArguments+`}`)
	answer(func([]byte) []byte { return ask(conn, "tools/call", params) })
}

// serveFixed answers each request with the same result: the cost of net/http.
func serveFixed(string) {
	result := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x",
		100) + `"}]}}`)
	answer(func([]byte) []byte { return result })
}

// startChild starts a child that lives as long as this process.
func startChild(script string) *jsonrpc.Conn {
	exe, _ := os.Executable()
	child := exec.Command(exe)
	child.Env = processtest.Env(script)
	in, err := child.StdinPipe()
	if err != nil {
		panic(err)
	}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		panic(err)
	}
	conn := jsonrpc.NewConn(ndjson.New(out, in, ndjson.Options{}), jsonrpc.Options{})
	go conn.Serve(context.Background())
	return conn
}

// ask returns the response to a request with the id 1.
func ask(conn *jsonrpc.Conn, method string, params json.RawMessage) []byte {
	result, err := conn.Call(context.Background(), method, params, nil)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
}

// answer serves HTTP with a function from request body to response body; nil is no response.
func answer(respond func(body []byte) []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		response := respond(body)
		if response == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(response)
	}))
}

// running is a server in its own process.
type running struct {
	addr string
	pid  int
	in   io.Writer
	out  *bufio.Reader
}

func run(t testing.TB, script string) *running {
	t.Helper()
	exe, env := processtest.Script(t, script)
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	r := &running{pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	r.addr = r.said(t)
	return r
}

// said returns the next line written by the server.
func (r *running) said(t testing.TB) string {
	t.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// keeps returns the memory in MiB that a gateway uses after a garbage collection. The size of the process would not
// show a leak: the runtime keeps each page with a live object.
func (r *running) keeps(t *testing.T) float64 {
	t.Helper()
	if _, err := io.WriteString(r.in, "\n"); err != nil {
		t.Fatal(err)
	}
	var bytes float64
	if _, err := fmt.Sscanf(r.said(t), "uses %f", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes / (1 << 20)
}

// anonymous returns the anonymous memory of the process in KiB.
func (r *running) anonymous(tb testing.TB) (kib int64) {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid))
	if err != nil {
		tb.Skip("the system does not say what memory is whose")
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		tb.Fatal(err)
	}
	return kib
}

func (r *running) descriptors(tb testing.TB) int {
	tb.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.pid))
	if err != nil {
		tb.Skip("the system does not say what files are open")
	}
	return len(list)
}

// TestStormSessions keeps many sessions open: no call fails, memory does not grow, and nothing is left behind.
func TestStormSessions(t *testing.T) {
	sessions, lasts, settles := stormtest.Sized(50, 1000), stormtest.Sized(2*time.Second,
		2*time.Minute), stormtest.Sized(time.Second, 20*time.Second)
	gateway := run(t, "gateway echo")
	before := gateway.descriptors(t)
	callers := make([]*dialled, sessions)
	for i := range callers {
		c, err := dialCaller(gateway.addr, "/mcp", "ext_x_echo")
		if err != nil {
			t.Fatal(err)
		}
		callers[i] = c
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var calls, failed atomic.Int64
	var first sync.Once
	var quiet sync.RWMutex // held by every call
	var wg sync.WaitGroup
	for i, c := range callers {
		wg.Go(func() {
			beat := time.NewTimer(time.Duration(i) * time.Second / time.Duration(sessions))
			defer beat.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-beat.C:
				}
				beat.Reset(time.Second)
				calls.Add(1)
				quiet.RLock()
				err := c.call()
				quiet.RUnlock()
				if err != nil {
					failed.Add(1)
					first.Do(func() { t.Logf("the first failure: %v", err) })
				}
			}
		})
	}
	slope := growth(ctx, settles, func() float64 {
		quiet.Lock() // calls in flight are not a leak
		defer quiet.Unlock()
		return gateway.keeps(t)
	})
	wg.Wait()
	t.Logf("%d sessions, %d calls, %d failed, %+.2f MiB/min, %d KiB, %.0f MiB kept", sessions, calls.Load(),
		failed.Load(), slope, gateway.anonymous(t), gateway.keeps(t))
	for _, c := range callers {
		c.conn.Close()
	}
	if failed.Load() > 0 || calls.Load() == 0 {
		t.Errorf("%d of %d calls failed", failed.Load(), calls.Load())
	}
	if stormtest.Full && slope > 0.5 {
		t.Errorf("the memory grows by %.2f MiB a minute", slope)
	}
	eventually(t, func() bool { return gateway.descriptors(t) <= before })
}

// growth returns the growth of keeps per minute, measured from settles after now until ctx ends: the minimum of the
// second half minus that of the first half. A leak raises every sample; stopped timers, which the runtime frees in
// batches, raise only most of them.
func growth(ctx context.Context, settles time.Duration, keeps func() float64) float64 {
	began := time.Now()
	tick := time.NewTicker(settles / 10)
	defer tick.Stop()
	var samples []float64
	for {
		select {
		case <-ctx.Done():
			half := len(samples) / 2
			if half == 0 {
				return 0
			}
			return (slices.Min(samples[half:]) - slices.Min(samples[:half])) / (time.Since(began) - settles).Minutes() *
				2
		case now := <-tick.C:
			if now.Sub(began) >= settles {
				samples = append(samples, keeps())
			}
		}
	}
}
