package gateway

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/exthost/exthost/internal/concurrent/inflight"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/units"
	"github.com/exthost/exthost/protocol"
)

// Calls is the gateway's way back to the host.
type Calls interface {
	// DoPart carries a call that is a part of the one that the gateway answers.
	DoPart(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// AwaitListed waits for extensions that start and whose items belong into the list of c.
	AwaitListed(ctx context.Context, c *protocol.Call)
	// Enter routes a call and does not send it. The caller of Enter leaves its snapshot.
	Enter(ctx context.Context, c *protocol.Call) (*dispatch.Call, error)
}

// Options of a [Gateway].
type Options struct {
	Snapshots *snapshot.Store
	Units     *units.Registry
	Hooks     *dispatch.HookEvents
	Beside    *inflight.Gate          // that work beside calls is inside
	Closing   context.Context         // ends when the host begins to close
	Ended     func(*protocol.Session) // called when a session with an id has ended; nil: nobody is told
	Changed   func()                  // called when the pins of what extensions say have changed
	// reports whether the caller of a call that failed is asked for what it lacks; nil: nobody is
	Asks func(c *dispatch.Call, err error) bool
	Log  *slog.Logger
}
