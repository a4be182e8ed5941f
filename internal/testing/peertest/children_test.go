package peertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// descriptor is the raw server's tool, with values that decoders lose.
const descriptor = `{"name":"echo","description":"Spiegelt: ü 日本 \u00e9","x_before":12345678901234567890,` +
	descriptorRest

const descriptorRest = `"inputSchema":{"type":"object","x_unknown":{"z":1.10,"a":"\u00e9"},"properties":{"n":{"maximum":12345678901234567890}}},` +
	`"annotations":{"title":"Écho 日本","readOnlyHint":true,"x_hint":1e2},"x_unknown":[12345678901234567890,"ü"]}`

// serveRaw is an MCP server of the given versions that returns the bytes it received.
func serveRaw(versions string) {
	for line := range input() {
		params := rawjson.Get(line, "params")
		var answer string
		switch method := string(rawjson.Get(line, "method")); {
		case method == `"server/discover"` && versions == "modern":
			answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		case method == `"initialize"` && versions == "legacy":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case method == `"tools/list"`:
			answer = `"result":{"tools":[` + descriptor + `]}`
			if versions == "modern" {
				answer = `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + descriptor +
					`]}`
			}
		case method != `"tools/call"`:
			answer = `"error":{"code":-32601,"message":"no"}`
		case rawjson.Get(rawjson.Get(params, "arguments"), "refuse") != nil:
			answer = `"error":` + rawError(rawjson.Get(params, "arguments"))
		default:
			answer = `"result":` + rawResult(versions, rawjson.Get(params, "arguments"), rawjson.Get(params, "x_extra"))
		}
		if id := rawjson.Get(line, "id"); id != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, answer)
		}
	}
}

// rawResult is the raw server's answer to a call.
func rawResult(versions string, arguments, extra json.RawMessage) string {
	head := `{`
	if versions == "modern" {
		head = `{"resultType":"complete",`
	}
	return head + fmt.Sprintf(`"content":[{"type":"text","text":"ü \u00e9","x_unknown":%s}],"structuredContent":%s,"x_extra":%s}`, arguments, arguments, extra)
}

// rawError is the raw server's error.
func rawError(arguments json.RawMessage) string {
	return fmt.Sprintf(`{"code":-32050,"message":"Grüße \u00e9","data":%s}`, arguments)
}

// serveLite answers each call of a lite extension with the params of the call.
func serveLite() {
	for line := range input() {
		fmt.Printf(`{"id":%s,"result":%s}`+"\n", rawjson.Get(line, "id"), rawjson.Get(line, "params"))
	}
}

// input yields the lines of stdin.
func input() func(yield func(json.RawMessage) bool) {
	return func(yield func(json.RawMessage) bool) {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan() && yield(lines.Bytes()); {
		}
	}
}

// nativeEcho is an extension of the Go SDK that returns its arguments unchanged.
func nativeEcho() *sdk.Extension {
	x := sdk.New("1.0.0")
	sdk.AddTool(x, sdk.Tool{Name: "echo", Description: "Echoes.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in json.RawMessage) (protocol.ToolResult, error) {
			return protocol.ToolResult(`{"content":[],"structuredContent":` + string(in) + `,"x_extra":` + string(in) +
				`}`), nil
		})
	return x
}

// serveOfficial is a server of the official Go SDK for legacy and modern versions. Its tools are those of
// the FastMCP server.
func serveOfficial() {
	s := mcp.NewServer(&mcp.Implementation{Name: "official", Version: "1"}, nil)
	add := func(name string, f func(ctx context.Context, r *mcp.CallToolRequest, args json.RawMessage) string) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{
					Content: []mcp.Content{&mcp.TextContent{Text: f(ctx, r, r.Params.Arguments)}},
				}, nil
			})
	}
	progress := func(ctx context.Context, r *mcp.CallToolRequest, i, to int) {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: r.Params.GetProgressToken(),
			Progress:      float64(i),
			Total:         float64(to),
			Message:       fmt.Sprint("step ", i),
		})
	}
	givenUp := make(chan struct{}, 1)
	add("count", func(ctx context.Context, r *mcp.CallToolRequest, _ json.RawMessage) string {
		for i := range 3 {
			progress(ctx, r, i+1, 3)
		}
		return "counted"
	})
	add("wait", func(ctx context.Context, r *mcp.CallToolRequest, _ json.RawMessage) string {
		progress(ctx, r, 1, 0)
		<-ctx.Done()
		givenUp <- struct{}{}
		return "too late"
	})
	add("cancelled", func(context.Context, *mcp.CallToolRequest, json.RawMessage) string {
		<-givenUp
		return "cancelled"
	})
	add("grow", func(_ context.Context, _ *mcp.CallToolRequest, args json.RawMessage) string {
		var name string
		_ = json.Unmarshal(rawjson.Get(args, "name"), &name)
		add(name, func(context.Context, *mcp.CallToolRequest, json.RawMessage) string { return "I am " + name })
		return "grown"
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
