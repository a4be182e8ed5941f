package cluster

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/pair"
	"github.com/exthost/exthost/cluster/internal/stream"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// Elsewhere returns the way to the MCP servers of the other nodes, for [mcpserver.Options]: a server
// behind a load balancer has the requests of their sessions answered by them.
func (n *Node) Elsewhere() mcpserver.Elsewhere { return (*homes)(n) }

// homes are the runs that have begun sessions.
type homes Node

// errNoHome has no outcome: nobody has got the request.
var errNoHome = protocol.Errorf(protocol.NodeLost, "no node has the run that had this")

// Home implements [mcpserver.Elsewhere]: it is the run of this node.
func (n *homes) Home() string { return n.self.Run }

// Homes implements [mcpserver.Elsewhere].
func (n *homes) Homes() (runs []string) {
	for _, a := range n.members.Staying() {
		runs = append(runs, a.Run)
	}
	return runs
}

// find returns the node that has a run; false when none has that stays.
func (n *homes) find(run string) (wire.Address, bool) {
	all := n.members.Staying()
	i := slices.IndexFunc(all, func(a wire.Address) bool { return a.Run == run })
	if i < 0 {
		return wire.Address{}, false
	}
	return all[i], true
}

// ServeForwarded implements [mcpserver.Elsewhere].
func (n *homes) ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte)) {
	n.streams.Store(stream.NewServer(serve, n.o.Log))
}

// Forward implements [mcpserver.Elsewhere].
func (n *homes) Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte,
) (began bool, err error) {
	to, ok := n.find(home)
	if !ok {
		return false, errNoHome
	}
	began, err = stream.Copy(ctx, w, func(ctx context.Context, method string, body []byte) ([]byte, error) {
		return n.call(ctx, to, method, body)
	}, request)
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		named := *e
		named.Message = "node " + to.Node + ": " + e.Message
		err = &named
	}
	return began, err
}

// awayPause is between the calls to a run that is away for a moment.
const awayPause = 50 * time.Millisecond

// call carries one call to a run. While the run connects anew, which takes it a moment, the call
// waits: at most for the grace. The error is errNoHome if the
// run did not get the call.
func (n *homes) call(ctx context.Context, to wire.Address, method string, body []byte) ([]byte, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for began := time.Now(); ; {
		<-pause.C
		h := &wire.Head{Request: wire.Request{Method: method}}
		result, err := (*Node)(n).deliver(ctx, to, h, body, nil)
		// it leaves, and takes its sessions with it
		if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ShuttingDown && e.Outcome == "" {
			return nil, errNoHome
		}
		if !errors.Is(err, pair.ErrNobody) && !errors.Is(err, pair.ErrStrange) && !errors.Is(err, link.ErrUnsent) {
			return result, err
		}
		if _, there := n.find(to.Run); !there || time.Since(began) > n.o.Settings.Grace.Std() || ctx.Err() != nil {
			return nil, errNoHome
		}
		pause.Reset(awayPause)
	}
}
