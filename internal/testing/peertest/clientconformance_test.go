package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// clientScenarios are what the suite requires of a client of a revision, beside signing in.
var clientScenarios = map[string][]string{
	legacyVersion: {"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"},
	modernVersion: {"tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers",
		"http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref"},
}

// TestClientConformance runs the official suite's scenarios for clients: its server is an extension of a host, and a
// client of the official SDK uses all that the host lists. What the suite sees is the host.
func TestClientConformance(t *testing.T) {
	p := needPeers(t)
	client, env := processtest.Script(t, "usingClient")
	for revision, scenarios := range clientScenarios {
		for _, scenario := range scenarios {
			t.Run(revision+"/"+scenario, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, p.bin("node"), p.bin("conformance"), "client", "--command", client,
					"--timeout", "60000", "--scenario", scenario, "--spec-version", revision)
				cmd.Dir = t.TempDir()
				cmd.Env = append(p.environ(t.TempDir()), append(env, programVar+"="+program(t))...)
				out, err := cmd.CombinedOutput()
				if err != nil || !passed.Match(out) {
					t.Errorf("%v\n%s", err, out)
				}
				t.Logf("%s", passed.Find(out))
			})
		}
	}
}

// useEverything is a client for the suite: it connects to a host whose one extension is the server at url, and lists
// and uses each tool, prompt and resource.
func useEverything(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	home, err := os.MkdirTemp("", "exthost-client-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	addRemote(home, url, "")
	cmd := exec.Command(os.Getenv(programVar), "serve", "--stdio", "--own", "--extensions",
		filepath.Join(home, "extensions"))
	cmd.Dir, cmd.Env, cmd.Stderr = home, append(os.Environ(), "HOME="+home), os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "using", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{
		ProtocolVersion: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION"),
	})
	if err != nil {
		return err
	}
	defer session.Close()
	return useSession(ctx, session)
}

// useSession uses what a session lists. Calls may fail: the suite judges what arrives.
func useSession(ctx context.Context, session *mcp.ClientSession) error {
	var suite struct {
		Calls []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"toolCalls"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &suite) // most scenarios have none
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		arguments := sample(tool.InputSchema)
		for _, c := range suite.Calls {
			if strings.HasSuffix(tool.Name, "_"+c.Name) {
				// The host refuses a null where the schema has a boolean, so its client leaves it out.
				maps.DeleteFunc(c.Arguments, func(_ string, value any) bool { return value == nil })
				arguments = c.Arguments
			}
		}
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: arguments})
		fmt.Fprintf(os.Stderr, "%s %v: %s %v\n", tool.Name, arguments, encode(result), err)
	}
	for prompt, err := range session.Prompts(ctx, nil) {
		if err != nil {
			break // the server has none
		}
		_, _ = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: prompt.Name})
	}
	for resource, err := range session.Resources(ctx, nil) {
		if err != nil {
			break
		}
		_, _ = session.ReadResource(ctx, &mcp.ReadResourceParams{URI: resource.URI})
	}
	return nil
}

// sample returns arguments that a schema takes: one for each property that it requires.
func sample(schema any) map[string]any {
	var s struct {
		Properties map[string]struct{ Type any }
		Required   []string
	}
	_ = json.Unmarshal([]byte(encode(schema)), &s)
	arguments := map[string]any{}
	for _, name := range s.Required {
		switch s.Properties[name].Type {
		case "number", "integer":
			arguments[name] = 5
		case "boolean":
			arguments[name] = true
		case "object":
			arguments[name] = map[string]any{}
		default:
			arguments[name] = "text"
		}
	}
	return arguments
}
