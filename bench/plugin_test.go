package bench_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/exthost/exthost/internal/benchtest"
	"github.com/exthost/exthost/internal/process/processtest"
)

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BENCH_PLUGIN", MagicCookieValue: "bench"}

// service is gRPC's own test service as a plugin.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	grpc_testing.UnimplementedTestServiceServer
}

func (s *service) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	grpc_testing.RegisterTestServiceServer(server, s)
	return nil
}

func (*service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return grpc_testing.NewTestServiceClient(conn), nil
}

func (*service) UnaryCall(_ context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return &grpc_testing.SimpleResponse{Payload: &grpc_testing.Payload{Body: make([]byte, r.ResponseSize)}}, nil
}

// servePlugin is the child.
func servePlugin() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugin.PluginSet{"bench": &service{}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}

// pluginCall returns the round trip to a plugin that makes the load.
func pluginCall(tb testing.TB, l benchtest.Load) func() error {
	tb.Helper()
	path, env := processtest.Script(tb, "grpc")
	cmd := exec.Command(path)
	cmd.Env = env
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake,
		Plugins:          plugin.PluginSet{"bench": &service{}},
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	tb.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := protocol.Dispense("bench")
	if err != nil {
		tb.Fatal(err)
	}
	request := &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: make([]byte, l.Up)}, ResponseSize: int32(l.Down)}
	return func() error {
		r, err := raw.(grpc_testing.TestServiceClient).UnaryCall(tb.Context(), request)
		if err == nil && len(r.Payload.Body) != l.Down {
			err = errSize
		}
		return err
	}
}
