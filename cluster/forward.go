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

// RemoteServers returns the value for [mcpserver.Options]. It forwards a request of an MCP session to the node where
// the session began, since a load balancer may send the request to any node.
func (n *Node) RemoteServers() mcpserver.RemoteServers { return (*homes)(n) }

// homes implements [mcpserver.RemoteServers]. The home of a session is the run in which the session began.
type homes Node

// errNoHome is returned if no run that can be reached has the session. It has no outcome, since nobody received the
// request.
var errNoHome = protocol.Errorf(protocol.NodeLost, "no node that can be reached has this session")

// Home implements [mcpserver.RemoteServers].
func (n *homes) Home() string { return n.self.Run }

// Homes implements [mcpserver.RemoteServers].
func (n *homes) Homes() (runs []string) {
	for _, a := range n.members.Staying() {
		runs = append(runs, a.Run)
	}
	return runs
}

// find returns the address of a run. It returns false if the run is absent or leaving.
func (n *homes) find(run string) (wire.Address, bool) {
	all := n.members.Staying()
	i := slices.IndexFunc(all, func(a wire.Address) bool { return a.Run == run })
	if i < 0 {
		return wire.Address{}, false
	}
	return all[i], true
}

// ServeForwarded implements [mcpserver.RemoteServers].
func (n *homes) ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte)) {
	n.streams.Store(stream.NewServer(serve, n.o.Log))
}

// Forward implements [mcpserver.RemoteServers].
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

// awayPause is the pause between two attempts to call a run that cannot be reached.
const awayPause = 50 * time.Millisecond

// call makes one call to a run. While the run cannot be reached, call retries for up to cluster.grace. It returns
// errNoHome if the run never received the call.
func (n *homes) call(ctx context.Context, to wire.Address, method string, body []byte) ([]byte, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for began := time.Now(); ; {
		<-pause.C
		h := &wire.Head{Request: wire.Request{Method: method}}
		result, err := (*Node)(n).deliver(ctx, to, h, body, nil)
		// the run shuts down, and its sessions end with it
		if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ShuttingDown && e.Outcome == "" {
			return nil, errNoHome
		}
		received := !errors.Is(err, pair.ErrUnreachable) && !errors.Is(err, pair.ErrNotReceived) &&
			!errors.Is(err, link.ErrUnsent)
		if received {
			return result, err
		}
		if _, there := n.find(to.Run); !there || time.Since(began) > n.o.Settings.Grace.Std() || ctx.Err() != nil {
			return nil, errNoHome
		}
		pause.Reset(awayPause)
	}
}
