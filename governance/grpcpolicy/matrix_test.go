package grpcpolicy_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/governancetest"
	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// matrixTool is the tool of the matrix's exchanges.
const matrixTool = "ext_x_work"

// TestMatrix tests a plugin in a process of its own against the rules of the pipeline.
func TestMatrix(t *testing.T) {
	processtest.Leaks(t)
	own(t)
	governancetest.Matrix(t, func(t *testing.T, s governance.Spec) governance.Policy {
		plugin := spec(t, "plugin")
		plugin.Name, plugin.Category = s.Name, s.Category
		return started(t, plugin)
	})
}

// scripted behaves as the caller's name says.
func scripted(ctx context.Context, r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error) {
	yes := &pluginv1.PluginHandleResponse{Continue: true}
	switch governancetest.Behaviour(r.Caller) {
	case governancetest.Allow:
		return yes, nil
	case governancetest.Deny:
		return &pluginv1.PluginHandleResponse{
			RejectCode:    governancetest.DenyCode,
			RejectMessage: governancetest.DenyReason,
		}, nil
	case governancetest.Modify:
		yes.RequestJson = rawjson.Get(governancetest.Changed(governance.Request), "arguments")
		yes.ResponseJson = governancetest.Changed(governance.Response)
		return yes, nil
	case governancetest.Malformed:
		yes.RequestJson, yes.ResponseJson = []byte(governancetest.Misshapen), []byte(governancetest.Misshapen)
		return yes, nil
	case governancetest.Hang:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, status.Error(codes.Internal, "its database is down")
}
