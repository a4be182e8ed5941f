package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// When a call needs a login, an official client that can open addresses is asked to sign in, in both revisions of MCP,
// and the call goes on.
func TestClientIsAskedToSignIn(t *testing.T) {
	processtest.Leaks(t)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			defer http.DefaultClient.CloseIdleConnections()
			up := oauthtest.New(t)
			dir := project(t, map[string]string{
				"exthost.yaml": "destinations:\n  hub: {type: http, url: " + up.URL + "}\n",
			})
			s := startServe(t, dir)
			defer s.end(t, os.Interrupt)
			asked := 0
			c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				Capabilities: &mcp.ClientCapabilities{
					Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}},
				},
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked++
					resp, err := http.Get(r.Params.URL)
					if err == nil {
						resp.Body.Close()
					}
					return &mcp.ElicitResult{Action: "accept"}, err
				}})
			session, err := c.Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: strings.TrimSuffix(s.url, "/mcp") + "/hub/mcp"},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal("connect: ", err)
			}
			defer session.Close()
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"})
			if err != nil || r.IsError || asked != 1 {
				t.Errorf("%+v, %v, asked %d times", r, err, asked)
			}
		})
	}
}
