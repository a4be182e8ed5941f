package bench_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// asked are the arguments of the servers' tools. Without a size, the tool returns the text.
type asked struct {
	Text string `json:"text"`
	Size int    `json:"size,omitempty"`
}

func (a asked) answer() string {
	if a.Size > 0 {
		return strings.Repeat("x", a.Size)
	}
	return a.Text
}

// arguments returns the arguments for the load.
func arguments(l benchtest.Load) asked {
	a := asked{Text: strings.Repeat("x", l.Up)}
	if l.Up != l.Down {
		a.Size = l.Down
	}
	return a
}

// serveMCPGo is a server with mcp-go.
func serveMCPGo() {
	s := server.NewMCPServer("bench", "1")
	s.AddTool(mcpgo.NewTool("echo", mcpgo.WithString("text", mcpgo.Required()), mcpgo.WithNumber("size")),
		func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(asked{r.GetString("text", ""), r.GetInt("size", 0)}.answer()), nil
		})
	_ = server.ServeStdio(s)
}

// mcpGoCall returns a function that makes the load's call with mcp-go on both ends.
func mcpGoCall(tb testing.TB, l benchtest.Load) func() error {
	tb.Helper()
	path, env := processtest.Script(tb, "mcp-go")
	c, err := client.NewStdioMCPClient(path, env)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	if _, err := c.Initialize(tb.Context(), mcpgo.InitializeRequest{}); err != nil {
		tb.Fatal(err)
	}
	var r mcpgo.CallToolRequest
	r.Params.Name, r.Params.Arguments = "echo", arguments(l)
	return func() error {
		got, err := c.CallTool(tb.Context(), r)
		if err != nil {
			return err
		}
		if text, ok := got.Content[0].(mcpgo.TextContent); !ok || len(text.Text) != l.Down {
			return errSize
		}
		return nil
	}
}

// goSDKServer is a server with the official SDK.
func goSDKServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"},
		func(_ context.Context, _ *mcp.CallToolRequest, in asked) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.answer()}}}, nil, nil
		})
	return s
}

func serveGoSDK() { _ = goSDKServer().Run(context.Background(), &mcp.StdioTransport{}) }

// serveGoSDKOverHTTP serves the same over HTTP and writes its URL. The SDK supports the newer revision of MCP only
// without sessions.
func serveGoSDKOverHTTP(revision string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := goSDKServer()
	fmt.Printf("http://%s/mcp\n", l.Addr())
	_ = http.Serve(l, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: revision == modern}))
}

// goSDKCall returns a function that makes the load's call with the official SDK on both ends.
func goSDKCall(tb testing.TB, l benchtest.Load) func() error {
	tb.Helper()
	path, env := processtest.Script(tb, "go-sdk")
	cmd := exec.Command(path)
	cmd.Env, cmd.Stderr = env, os.Stderr
	return goSDKCaller(tb, l, &mcp.CommandTransport{Command: cmd}, "", "echo")
}

// goSDKCaller opens a session and returns a function that makes the load's call. revision is the MCP revision; ""
// selects the newest that the server supports.
func goSDKCaller(tb testing.TB, l benchtest.Load, t mcp.Transport, revision, tool string) func() error {
	tb.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := c.Connect(context.Background(), t, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { session.Close() })
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments(l)}
	return func() error {
		got, err := session.CallTool(tb.Context(), params)
		if err != nil {
			return err
		}
		if text, ok := got.Content[0].(*mcp.TextContent); got.IsError || !ok || len(text.Text) != l.Down {
			return errSize
		}
		return nil
	}
}
