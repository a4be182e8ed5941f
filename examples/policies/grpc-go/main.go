// Words is a policy of kind grpc that implements all seven categories; the host selects
// one. Copy it and remove the others.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"

	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
)

// maxMessage has room for a request and a result of 16 MiB each. With gRPC's default of 4
// MiB, larger results would be errors.
const maxMessage = 2*16<<20 + 64<<10

func main() {
	log.SetFlags(0) // the host adds the time
	if err := run(); err != nil {
		log.Fatal("E! ", err)
	}
}

func run() error {
	socket := os.Getenv("MCPV_PLUGIN_SOCKET")
	if socket == "" {
		return errors.New("MCPV_PLUGIN_SOCKET is not set: this program is started by a host, see policy.yaml")
	}
	p, err := newPlugin(os.Getenv("MCPV_PLUGIN_NAME"), os.Getenv("MCPV_PLUGIN_CATEGORY"))
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	pluginv1.RegisterPluginServiceServer(server, p)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, server.GracefulStop)
	if err := server.Serve(l); err != nil {
		return fmt.Errorf("serving on %s: %w", socket, err)
	}
	return nil
}
