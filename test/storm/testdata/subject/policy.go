package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/sdk"
)

// approver is a policy that approves two calls of three, and writes down which
// before it says so.
type approver struct {
	pluginv1.UnimplementedPluginServiceServer
	journal *os.File
}

// approve is the policy of a kind.
func approve(kind string) int {
	p := new(approver)
	if err := p.open(os.Getenv("EXTHOST_STATE_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, "E!", err)
		return 1
	}
	if kind == "grpc" {
		return p.serve()
	}
	x := sdk.New("1.0.0")
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) {
		if ok, err := p.decide(e.Request); !ok {
			return sdk.Deny("every_third", "no"), err
		}
		return sdk.Allow(), nil
	})
	return x.Main()
}

func (p *approver) open(dir string) (err error) {
	p.journal, err = os.OpenFile(filepath.Join(dir, "approved"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// decide finds the nonce in a request, which is caller.number.
func (p *approver) decide(request []byte) (bool, error) {
	_, after, ok := strings.Cut(string(request), `"nonce":"`)
	nonce, _, _ := strings.Cut(after, `"`)
	var caller, n int
	if _, err := fmt.Sscanf(nonce, "%d.%d", &caller, &n); !ok || err != nil || n%3 == 0 {
		return false, err
	}
	err := stormtest.AddEntry(p.journal, nonce)
	return err == nil, err
}

func (p *approver) serve() int {
	l, err := net.Listen("unix", os.Getenv("MCPV_PLUGIN_SOCKET"))
	if err == nil {
		s := grpc.NewServer()
		pluginv1.RegisterPluginServiceServer(s, p)
		err = s.Serve(l)
	}
	fmt.Fprintln(os.Stderr, "E!", err)
	return 1
}

func (p *approver) GetMetadata(context.Context, *emptypb.Empty) (*pluginv1.PluginMetadata, error) {
	return &pluginv1.PluginMetadata{}, nil
}

func (p *approver) Configure(context.Context, *pluginv1.PluginConfigureRequest,
) (*pluginv1.PluginConfigureResponse, error) {
	return &pluginv1.PluginConfigureResponse{}, nil
}

func (p *approver) CheckReady(context.Context, *emptypb.Empty) (*pluginv1.PluginReadyResponse, error) {
	return &pluginv1.PluginReadyResponse{Ready: true}, nil
}

func (p *approver) HandleRequest(_ context.Context, r *pluginv1.PluginHandleRequest,
) (*pluginv1.PluginHandleResponse, error) {
	ok, err := p.decide(r.RequestJson)
	return &pluginv1.PluginHandleResponse{Continue: ok, RejectCode: "every_third"}, err
}
