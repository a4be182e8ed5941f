package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/mcpserver"
)

// fronts are the transports, each with the protocol version that a client requests.
var fronts = []struct {
	name, version string
	connect       func(t *testing.T, b mcpserver.Backend, o mcpserver.Options) mcp.Transport
}{
	{"stdio", "2024-11-05", stdioTransport},
	{"stdio", "2025-11-25", stdioTransport},
	{"stdio", "2026-07-28", stdioTransport},
	{"http", "2025-03-26", httpTransport},
	{"http", "2025-11-25", httpTransport},
	{"http", "2026-07-28", httpTransport},
	{"sse", "2024-11-05", sseTransport},
	{"sse", "2026-07-28", sseTransport}, // the client falls back to initialize
	{"http of two", "2025-11-25", balancedHTTP},
	{"http of two", "2026-07-28", balancedHTTP},
	{"sse of two", "2024-11-05", balancedSSE},
}

// eachFront runs f as a subtest with a client on every transport.
func eachFront(t *testing.T, o *mcp.ClientOptions, f func(t *testing.T, b *fake, c *mcp.ClientSession)) {
	for _, front := range fronts {
		t.Run(front.name+"/"+front.version, func(t *testing.T) {
			t.Parallel()
			b := newFake()
			served := mcpserver.Options{Name: "test", Version: "1.2.3", Instructions: "be kind"}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o)
			session, err := client.Connect(ctx, front.connect(t, b, served),
				&mcp.ClientSessionOptions{ProtocolVersion: front.version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			f(t, b, session)
		})
	}
}

func stdioTransport(t *testing.T, b mcpserver.Backend, o mcpserver.Options) mcp.Transport {
	in, out := serveStdio(t, mcpserver.New(b, o))
	return &mcp.IOTransport{Reader: out, Writer: in}
}

// serveStdio runs s over two pipes and returns the client's ends. It fails the test if ServeStdio returns an error.
func serveStdio(t *testing.T, s *mcpserver.Server) (in, out *os.File) {
	t.Helper()
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(context.Background(), r, w) }()
	t.Cleanup(func() {
		in.Close()
		if err := get(t, ended, "ServeStdio to return"); err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		out.Close()
	})
	return in, out
}

// serveHTTP serves s over HTTP on a loopback port.
func serveHTTP(t testing.TB, s *mcpserver.Server) *httptest.Server {
	mux := http.NewServeMux()
	sse, message := s.SSE("")
	mux.Handle("/mcp", s.Handler(""))
	mux.Handle("/sse", sse)
	mux.Handle("/message", message)
	server := httptest.NewServer(asCaller(mux))
	t.Cleanup(func() {
		s.Close()
		server.Close()
	})
	return server
}

// asCaller takes the caller from the header Caller.
func asCaller(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(mcpserver.WithCaller(r.Context(), r.Header.Get("Caller"))))
	})
}

// httpClient is separate from http.DefaultClient, whose idle connections httptest.Server.Close closes.
var httpClient = &http.Client{Transport: &http.Transport{}}

func httpTransport(t *testing.T, b mcpserver.Backend, o mcpserver.Options) mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint:   serveHTTP(t, mcpserver.New(b, o)).URL + "/mcp",
		HTTPClient: httpClient,
	}
}

func sseTransport(t *testing.T, b mcpserver.Backend, o mcpserver.Options) mcp.Transport {
	return &mcp.SSEClientTransport{Endpoint: serveHTTP(t, mcpserver.New(b, o)).URL + "/sse", HTTPClient: httpClient}
}

func TestClientListsAndCalls(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, _ *fake, c *mcp.ClientSession) {
		info := c.InitializeResult()
		if info.ServerInfo.Name != "test" || info.ServerInfo.Version != "1.2.3" || info.Instructions != "be kind" {
			t.Errorf("handshake: %+v", info)
		}
		list, err := c.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 3 || list.Tools[0].Name != "echo" {
			t.Fatalf("tools/list: %+v, %v", list, err)
		}
		result, err := c.CallTool(t.Context(),
			&mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"word": "grüß Gott"}})
		if err != nil {
			t.Fatal(err)
		}
		if word := result.StructuredContent.(map[string]any)["word"]; word != "grüß Gott" {
			t.Errorf("echo said %v", word)
		}
	})
}

func TestClientGetsFailures(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, _ *fake, c *mcp.ClientSession) {
		result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "bad"})
		if err != nil {
			t.Fatalf("bad arguments: %v; want a result the model can read", err)
		}
		text, _ := result.Content[0].(*mcp.TextContent)
		if !result.IsError || text == nil || text.Text != "argument city is missing" {
			t.Errorf("bad arguments: %+v", result)
		}
		if data, _ := result.Meta["exthost/error"].(map[string]any); data["kind"] != "invalid_arguments" {
			t.Errorf("bad arguments: data %v", data)
		}
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil ||
			!strings.Contains(err.Error(), "there is no tool") {
			t.Errorf("unknown tool: %v", err)
		}
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "child"}); err == nil ||
			!strings.Contains(err.Error(), "needs sampling") {
			t.Errorf("the extension's own error: %v", err)
		}
	})
}

func TestClientCancels(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, b *fake, c *mcp.ClientSession) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
			failed <- err
		}()
		get(t, b.calls, "the call")
		cancel()
		get(t, b.ended, "the call to be cancelled")
		if err := get(t, failed, "CallTool"); err == nil {
			t.Error("a cancelled call succeeded")
		}
		if _, err := c.CallTool(t.Context(),
			&mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}}); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

func TestClientGetsRequestsDuringItsCall(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, _ *fake, c *mcp.ClientSession) {
		result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := result.StructuredContent.(map[string]any)["roots"]; !ok {
			t.Errorf("answer %+v", result.StructuredContent)
		}
	})
}

func TestClientGetsProgressAndChanges(t *testing.T) {
	progress, changes := make(chan float64, 64), make(chan string, 64)
	o := &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			progress <- r.Params.Progress
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- "" },
	}
	for _, front := range fronts {
		t.Run(front.name+"/"+front.version, func(t *testing.T) {
			b := newFake()
			client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o)
			c, err := client.Connect(t.Context(), front.connect(t, b, mcpserver.Options{}),
				&mcp.ClientSessionOptions{ProtocolVersion: front.version})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			params := &mcp.CallToolParams{Name: "count"}
			params.SetProgressToken("tok")
			if _, err := c.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			for want := range 3 {
				if got := get(t, progress, "progress"); got != float64(want) {
					t.Errorf("progress %v, want %v", got, want)
				}
			}
			get(t, b.attached, "the session")
			b.announce()
			get(t, changes, "list_changed")
		})
	}
}
