package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/directory"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// featureOperations is the feature of nodes that accept operations.
const featureOperations = "operations"

// Operate implements [peers.Cluster].
func (n *Node) Operate(ctx context.Context, node, method string, params json.RawMessage) (json.RawMessage, error) {
	to, takes := n.members.Taker(node)
	if !takes {
		return nil, protocol.Errorf(protocol.NotReady,
			"node %s is away, leaving or not in the cluster; exthost status shows the nodes", node)
	}
	if version, ok := n.members.Knows(to, featureOperations); !ok {
		return nil, protocol.Errorf(protocol.RequirementMissing,
			"not supported by node %s (exthost %s): update exthost there, or give the command there", node, version)
	}
	result, err := n.deliver(ctx, to, &wire.Head{Request: wire.Request{Extension: wire.Itself, Method: method}}, params,
		nil)
	if err != nil {
		return nil, err
	}
	if bad := rawjson.Check(result); bad != nil {
		return nil, &protocol.Error{
			Kind:    protocol.InvalidResponse,
			Outcome: "unknown",
			Message: "the answer is not JSON: " + bad.Error(),
		}
	}
	return result, nil
}

// operate runs an operation for the operator of a remote node.
func (n *inbound) operate(ctx context.Context, from wire.Address, h *wire.Head, body []byte) ([]byte, error) {
	if err := rawjson.Check(body); err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "the params are not JSON: %w", err)
	}
	return n.host.Operate(ctx, &peers.Operation{
		Node:     from.Node,
		Run:      from.Run,
		Method:   h.Method,
		Params:   body,
		Operator: slices.Contains(n.o.Settings.Operators, from.Node),
	})
}

// Waiting implements [peers.Cluster].
func (n *Node) Waiting(requests int) {
	n.setOwn(func(own *directory.Own) { own.Waiting, own.Asked = requests, max(time.Now().UnixMilli(), own.Asked+1) })
}
