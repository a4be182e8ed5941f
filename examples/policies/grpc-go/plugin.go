package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
)

// plugin implements one category.
type plugin struct {
	pluginv1.UnimplementedPluginServiceServer
	name, category string
	make           func(config) (decideFunc, error)
	decide         decideFunc // nil before Configure
}

// decideFunc decides about one flow of an exchange. It must be safe for concurrent use.
type decideFunc func(r *pluginv1.PluginHandleRequest) (*pluginv1.PluginHandleResponse, error)

func newPlugin(name, category string) (*plugin, error) {
	maker, ok := categories[category]
	if !ok {
		return nil, fmt.Errorf("MCPV_PLUGIN_CATEGORY is %q, which is no category", category)
	}
	return &plugin{name: name, category: category, make: maker}, nil
}

// GetMetadata implements [pluginv1.PluginServiceServer].
func (p *plugin) GetMetadata(context.Context, *emptypb.Empty) (*pluginv1.PluginMetadata, error) {
	return &pluginv1.PluginMetadata{Name: p.name, Category: p.category, Flows: []string{"request", "response"}}, nil
}

// Configure implements [pluginv1.PluginServiceServer]. The host calls it once, before any
// decision.
func (p *plugin) Configure(_ context.Context, r *pluginv1.PluginConfigureRequest,
) (*pluginv1.PluginConfigureResponse, error) {
	c := defaults()
	dec := json.NewDecoder(bytes.NewReader(r.ConfigJson))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil && err != io.EOF {
		return nil, status.Errorf(codes.InvalidArgument, "config: %v", err)
	}
	var err error
	if p.decide, err = p.make(c); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "config: %v", err)
	}
	return &pluginv1.PluginConfigureResponse{}, nil
}

// CheckReady implements [pluginv1.PluginServiceServer].
func (p *plugin) CheckReady(context.Context, *emptypb.Empty) (*pluginv1.PluginReadyResponse, error) {
	return &pluginv1.PluginReadyResponse{Ready: p.decide != nil, Message: "not configured"}, nil
}

// HandleRequest implements [pluginv1.PluginServiceServer].
func (p *plugin) HandleRequest(_ context.Context, r *pluginv1.PluginHandleRequest,
) (*pluginv1.PluginHandleResponse, error) {
	return p.decide(r)
}

// HandleResponse implements [pluginv1.PluginServiceServer].
func (p *plugin) HandleResponse(_ context.Context, r *pluginv1.PluginHandleRequest,
) (*pluginv1.PluginHandleResponse, error) {
	return p.decide(r)
}

// Shutdown implements [pluginv1.PluginServiceServer]. SIGTERM follows.
func (p *plugin) Shutdown(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// allow allows the exchange. An empty answer would reject it.
func allow() *pluginv1.PluginHandleResponse { return &pluginv1.PluginHandleResponse{Continue: true} }

// reject ends the exchange. The model reads the message, which should suggest an
// alternative. An empty code stands for the code of the category.
func reject(code, format string, args ...any) *pluginv1.PluginHandleResponse {
	return &pluginv1.PluginHandleResponse{RejectCode: code, RejectMessage: fmt.Sprintf(format, args...)}
}
