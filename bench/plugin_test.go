package bench_test

import (
	"context"
	"net/rpc"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BENCH_PLUGIN", MagicCookieValue: "bench"}

// maxMessage is a limit above all loads; the default of gRPC is 4 MiB.
const maxMessage = 64 << 20

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

// Request is the argument of the net/rpc plugin. That package requires exported names.
type Request struct {
	Text []byte
	Size int
}

// rpcService is a plugin of net/rpc.
type rpcService struct{}

func (s *rpcService) Server(*plugin.MuxBroker) (any, error)                     { return s, nil }
func (*rpcService) Client(_ *plugin.MuxBroker, client *rpc.Client) (any, error) { return client, nil }

// Write returns as many bytes as requested.
func (*rpcService) Write(r Request, out *[]byte) error {
	*out = make([]byte, r.Size)
	return nil
}

var plugins = plugin.PluginSet{"grpc": &service{}, "netrpc": &rpcService{}}

// servePlugin is the child.
func servePlugin(kind string) {
	c := &plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugin.PluginSet{kind: plugins[kind]},
		Logger:          hclog.NewNullLogger(),
	}
	if kind == "grpc" {
		c.GRPCServer = func(options []grpc.ServerOption) *grpc.Server {
			return plugin.DefaultGRPCServer(append(options, grpc.MaxRecvMsgSize(maxMessage)))
		}
	}
	plugin.Serve(c)
}

// dispense starts a plugin and returns its client.
func dispense(tb testing.TB, kind string) any {
	tb.Helper()
	path, env := processtest.Script(tb, "plugin "+kind)
	cmd := exec.Command(path)
	cmd.Env = env
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake,
		Plugins:          plugin.PluginSet{kind: plugins[kind]},
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC, plugin.ProtocolNetRPC},
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions:  []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage))},
	})
	tb.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := protocol.Dispense(kind)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// grpcCall returns a function that makes the load's call over gRPC.
func grpcCall(tb testing.TB, l benchtest.Load) func() error {
	tb.Helper()
	client := dispense(tb, "grpc").(grpc_testing.TestServiceClient)
	r := &grpc_testing.SimpleRequest{
		Payload:      &grpc_testing.Payload{Body: make([]byte, l.Up)},
		ResponseSize: int32(l.Down),
	}
	return func() error {
		got, err := client.UnaryCall(tb.Context(), r)
		if err == nil && len(got.Payload.Body) != l.Down {
			err = errSize
		}
		return err
	}
}

// netRPCCall returns a function that makes the load's call over net/rpc.
func netRPCCall(tb testing.TB, l benchtest.Load) func() error {
	tb.Helper()
	client := dispense(tb, "netrpc").(*rpc.Client)
	r := Request{make([]byte, l.Up), l.Down}
	return func() error {
		var out []byte
		err := client.Call("Plugin.Write", r, &out)
		if err == nil && len(out) != l.Down {
			err = errSize
		}
		return err
	}
}
