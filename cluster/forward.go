package cluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/pair"
	"github.com/exthost/exthost/cluster/internal/stream"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

var _ mcpserver.Elsewhere = (*Node)(nil)

// errNoHome has no outcome: nobody has got the request.
var errNoHome = protocol.Errorf(protocol.NodeLost, "no node has the run that had this")

// Home implements [mcpserver.Elsewhere]: it is the run of this node.
func (n *Node) Home() string { return n.self.Run }

// Homes implements [mcpserver.Elsewhere].
func (n *Node) Homes() []string { return n.members.Homes() }

// ServeForwarded implements [mcpserver.Elsewhere].
func (n *Node) ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte)) {
	n.streams.Store(stream.NewServer(serve, n.o.Log))
}

// Forward implements [mcpserver.Elsewhere].
func (n *Node) Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte) (began bool, err error) {
	to, ok := n.members.Home(home)
	if !ok {
		return false, errNoHome
	}
	return stream.Copy(ctx, w, func(ctx context.Context, method string, body []byte) ([]byte, error) {
		return n.callHome(ctx, to, method, body)
	}, request)
}

// awayPause is between the calls to a run that is away for a moment.
const awayPause = 50 * time.Millisecond

// callHome carries one call to a run. While the run connects anew, which takes it a moment, the call
// waits: at most for the grace. The error is
// errNoHome if the run did not get the call.
func (n *Node) callHome(ctx context.Context, to wire.Address, method string, body []byte) ([]byte, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for began := time.Now(); ; {
		<-pause.C
		h := &wire.Head{Request: wire.Request{Method: method}}
		result, err := n.deliver(ctx, to, h, body, nil)
		if !errors.Is(err, pair.ErrNobody) && !errors.Is(err, pair.ErrStrange) && !errors.Is(err, link.ErrUnsent) {
			return result, err
		}
		if _, there := n.members.Home(to.Run); !there || time.Since(began) > n.o.Settings.Grace.Std() || ctx.Err() != nil {
			return nil, errNoHome
		}
		pause.Reset(awayPause)
	}
}
