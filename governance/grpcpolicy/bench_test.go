package grpcpolicy_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/testing/benchtest"
)

// BenchmarkDecide compares a decision about a request with the same call by a plain gRPC
// client to another process of the same plugin.
func BenchmarkDecide(b *testing.B) {
	for _, load := range []benchtest.Load{
		{Name: "sequential/100B", Callers: 1, Calls: 2000},
		{Name: "callers16/100B", Callers: 16, Calls: 4000},
	} {
		b.Run(load.Name, func(b *testing.B) {
			own(b)
			started(b, spec(b, "plugin"))
			bare, request := bareClient(b), &pluginv1.PluginHandleRequest{
				Flow:        "request",
				Method:      "tools/call",
				Caller:      "ann",
				Server:      "files",
				ToolName:    "allow",
				RoutingKey:  "s1",
				RequestJson: []byte(`{"path":"/etc","n":12345678901234567890}`),
				Metadata:    map[string]string{"request_id": "d1", "direction": "to_extension"},
			}
			p, x := started(b, spec(b, "plugin")), call("allow")
			load.Compare(b,
				benchtest.Way{
					Name: "bare",
					Call: func() error {
						r, err := bare.HandleRequest(context.Background(), request)
						if err == nil && !r.Continue {
							return errors.New("rejected")
						}
						return err
					},
				},
				benchtest.Way{
					Name: "policy",
					Call: func() error {
						d, err := p.Decide(context.Background(), governance.Request, x)
						if err == nil && d.Action != governance.Allow {
							return errors.New("rejected")
						}
						return err
					},
				},
			)
		})
	}
}

// bareClient returns a client of the running plugin with gRPC's default options.
func bareClient(b *testing.B) pluginv1.PluginServiceClient {
	b.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(sockets(b)[0], "s"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return pluginv1.NewPluginServiceClient(conn)
}
