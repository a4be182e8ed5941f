//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"log"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP runs a server of the official SDK on stdin and stdout. args is the only revision that it speaks; "" means
// all.
func serveMCP(args string) {
	if err := newSDKServer(args).Run(context.Background(), &sdk.StdioTransport{}); err != nil &&
		!strings.Contains(err.Error(), "EOF") {
		log.Print(err)
	}
}

func newSDKServer(args string) *sdk.Server {
	o := &sdk.ServerOptions{Instructions: "ask kindly", PageSize: 2}
	if args != "" {
		o.SupportedProtocolVersions = []string{args}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "3.2.1"}, o)
	schema := json.RawMessage(`{"type":"object"}`)
	for _, name := range []string{"add", "echo", "progress", "sleep", "fail"} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: schema},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return sdkTool(ctx, s, name, r)
			})
	}
	return s
}

func sdkTool(ctx context.Context, s *sdk.Server, name string, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	switch name {
	case "add":
		s.AddTool(&sdk.Tool{Name: "added", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	case "progress", "sleep":
		p := &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 0.5}
		if err := r.Session.NotifyProgress(ctx, p); err != nil {
			return nil, err
		}
		if name == "progress" {
			break
		}
		<-ctx.Done()
		log.Print("canceled")
		return nil, ctx.Err()
	case "fail":
		return nil, sdk.ResourceNotFoundError("x://y")
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
}
