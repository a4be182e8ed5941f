package policies_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/governancetest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/sdk"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m),
		map[string]processtest.Verb{"native": scriptedNative, "mcp": scriptedMCP})
}

// scriptedNative is a policy of kind native that behaves as its caller's name says.
func scriptedNative(string) {
	x := sdk.New("1")
	x.OnDecide(func(ctx context.Context, e *sdk.Exchange) (sdk.Decision, error) {
		switch governancetest.Behaviour(e.Caller) {
		case governancetest.Allow:
			return sdk.Allow(), nil
		case governancetest.Deny:
			return sdk.Deny(governancetest.DenyCode, governancetest.DenyReason), nil
		case governancetest.Modify:
			return sdk.Modify(governancetest.Changed(governance.Flow(e.Flow))), nil
		case governancetest.Malformed:
			return sdk.Modify(json.RawMessage(governancetest.Misshapen)), nil
		case governancetest.Hang:
			<-ctx.Done()
			return sdk.Decision{}, ctx.Err()
		}
		return sdk.Decision{}, errors.New("its database is down")
	})
	os.Exit(x.Main())
}

// scriptedMCP is a plugin server whose plugin behaves as the caller's name says.
func scriptedMCP(name string) {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	open := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&mcp.Tool{Name: "get_plugin_config", InputSchema: open},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return block(`{"name":%q,"hooks":["tool_pre_invoke","tool_post_invoke"]}`, name), nil
		})
	server.AddTool(&mcp.Tool{Name: "invoke_hook", InputSchema: open},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args := r.Params.Arguments
			caller, _ := rawjson.Text(rawjson.Get(rawjson.Get(rawjson.Get(args, "context"), "global_context"), "user"))
			hook, _ := rawjson.Text(rawjson.Get(args, "hook_type"))
			member, value := "args", rawjson.Get(governancetest.Changed(governance.Request), "arguments")
			if hook == "tool_post_invoke" {
				member, value = "result", governancetest.Changed(governance.Response)
			}
			switch governancetest.Behaviour(caller) {
			case governancetest.Allow:
				return block(`{"result":{"continue_processing":true}}`), nil
			case governancetest.Deny:
				return block(`{"result":{"continue_processing":false,"violation":{"code":%q,"reason":%q,"description":""}}}`, governancetest.DenyCode, governancetest.DenyReason), nil
			case governancetest.Malformed:
				value = json.RawMessage(governancetest.Misshapen)
				fallthrough
			case governancetest.Modify:
				return block(`{"result":{"modified_payload":{%q:%s}}}`, member, value), nil
			case governancetest.Hang:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return block(`{"error":{"message":"its database is down","plugin_name":%q}}`, name), nil
		})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "E!", err)
	}
}

func block(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}
