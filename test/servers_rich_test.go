//lint:file-ignore SA1019 the servers of today use what is deprecated

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// richServer is an MCP server with every feature, in legacy ("older"), modern ("newer") or both ("") versions.
func richServer(versions string) *mcp.Server {
	o := &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{
				Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Ref.Name + r.Params.Ref.URI}},
			}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		Instructions:       "be kind",
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "rich", Version: "1"}, o)
	if versions != "" {
		s.AddReceivingMiddleware(oneVersion(versions))
	}
	schema := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&mcp.Tool{Name: "ask", InputSchema: schema}, askClient)
	s.AddTool(&mcp.Tool{Name: "input", InputSchema: schema}, returnInputRequests)
	s.AddTool(&mcp.Tool{Name: "both", InputSchema: schema}, returnTwoQuestions)
	s.AddTool(&mcp.Tool{Name: "log", InputSchema: schema},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for _, level := range []mcp.LoggingLevel{"debug", "error"} {
				if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: "said"}); err != nil {
					return nil, err
				}
			}
			return textOf("logged"), nil
		})
	s.AddTool(&mcp.Tool{Name: "touch", InputSchema: schema},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://note"})
			return textOf("touched"), err
		})
	s.AddTool(&mcp.Tool{Name: "grow", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.AddPrompt(&mcp.Prompt{Name: "grown"}, getPrompt)
			return textOf("grown"), nil
		})
	s.AddTool(&mcp.Tool{Name: "die", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			processtest.Exit(3)
			return nil, nil
		})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{
			Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: os.Getenv("EXTHOST_EXTENSION_ID")}},
		}, nil
	}
	s.AddResource(&mcp.Resource{Name: "note", URI: "test://note"}, read)
	s.AddResource(&mcp.Resource{Name: "own", URI: "own://" + os.Getenv("EXTHOST_EXTENSION_ID")}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name:        "t",
		URITemplate: os.Getenv("EXTHOST_EXTENSION_ID") + "://{id}/data",
	}, read)
	s.AddPrompt(&mcp.Prompt{Name: "p"}, getPrompt)
	return s
}

// oneVersion refuses the handshake of other versions.
func oneVersion(versions string) mcp.Middleware {
	refused := map[string]string{"older": "server/discover", "newer": "initialize"}[versions]
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == refused {
				return nil, fmt.Errorf("no %s here", method)
			}
			return next(ctx, method, r)
		}
	}
}

func textOf(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func getPrompt(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{Description: r.Params.Name + " of " + os.Getenv("EXTHOST_EXTENSION_ID")}, nil
}

// askClient sends requests while it works, as legacy servers do. It can be told to wait first.
func askClient(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct{ For, Wait string }
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	if in.Wait != "" {
		c, err := net.Dial("tcp", in.Wait)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, c) // until the test hangs up
		c.Close()
	}
	switch in.For {
	case "roots":
		got, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return textOf("error: " + err.Error()), nil
		}
		return textOf(got.Roots[0].URI), nil
	case "sampling":
		got, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
		if err != nil {
			return textOf("error: " + err.Error()), nil
		}
		return textOf(got.Model), nil
	}
	got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?"})
	if err != nil {
		return textOf("error: " + err.Error()), nil
	}
	return textOf(got.Action), nil
}

// returnInputRequests returns input requests, as modern servers do.
func returnInputRequests(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if roots, ok := r.Params.InputResponses["r"].(*mcp.ListRootsResult); ok && r.Params.RequestState == "kept" {
		return textOf(roots.Roots[0].URI), nil
	}
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{"r": &mcp.ListRootsParams{}},
		RequestState:  "kept",
	}, nil
}

// returnTwoQuestions returns two input requests: roots and elicitation.
func returnTwoQuestions(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	roots, ok := r.Params.InputResponses["r"].(*mcp.ListRootsResult)
	if word, also := r.Params.InputResponses["e"].(*mcp.ElicitResult); ok && also && r.Params.RequestState == "kept" {
		return textOf(roots.Roots[0].URI + " " + word.Action), nil
	}
	return &mcp.CallToolResult{
		RequestState: "kept",
		InputRequests: mcp.InputRequestMap{"r": &mcp.ListRootsParams{}, "e": &mcp.ElicitParams{
			Message:         "who?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		}},
	}, nil
}

func serveRich(versions string) {
	if err := richServer(versions).Run(context.Background(), &mcp.StdioTransport{}); err != nil &&
		!strings.Contains(err.Error(), "EOF") {
		log.Print(err)
	}
}

// rich returns the manifest of a richServer.
func rich(versions, more string) string {
	return hosttest.Plays(strings.TrimSpace("rich "+versions), "protocol = \"mcp\"\n"+more)
}

// client answers requests and records notifications.
type client struct {
	*hosttest.Recorder
	name string
}

func newClient(name string) *client { return &client{hosttest.NewRecorder(), name} }

func (c *client) Call(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c.Mu.Lock()
	c.Heard = append(c.Heard, method+"?")
	c.Mu.Unlock()
	switch method {
	case "roots/list":
		return json.RawMessage(`{"roots":[{"uri":"file:///` + c.name + `"}]}`), nil
	case "sampling/createMessage":
		return json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"x"},"model":"` + c.name +
			`"}`), nil
	case "elicitation/create":
		return json.RawMessage(`{"action":"accept","content":{}}`), nil
	}
	return nil, protocol.Errorf(protocol.ToolNotFound, "not served")
}

// stay attaches a session with a client of the given revision.
func stay(t *testing.T, h *exthost.Host, id, version, extension string) (*protocol.Session, *client) {
	t.Helper()
	c := newClient(id)
	s := &protocol.Session{
		ID:           id,
		Version:      version,
		Extension:    extension,
		Client:       c,
		Capabilities: json.RawMessage(`{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}`),
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	if err := h.Attach(ctx, s); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// callTool calls a tool in s and returns its text.
func callTool(t *testing.T, h *exthost.Host, s *protocol.Session, client protocol.Peer, tool, arguments string) string {
	t.Helper()
	meta := ""
	if s != nil && s.Version >= protocol.MCP20260728 {
		meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s}`, s.Version, s.Capabilities)
	}
	c := &protocol.Call{
		Session: s,
		Method:  protocol.MethodToolsCall,
		Client:  client,
		Params:  json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, tool, arguments, meta)),
	}
	if s != nil {
		c.Extension = s.Extension
	}
	result, err := h.Do(hosttest.Deadline(t), c)
	if err != nil {
		return "error: " + err.Error()
	}
	if text := protocol.ToolResult(result).Text(); text != "" {
		return text
	}
	return string(result)
}
