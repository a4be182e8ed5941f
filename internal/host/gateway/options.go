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

// Calls lets the gateway make calls.
type Calls interface {
	// DoPart carries a call that is part of the call being answered.
	DoPart(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// AwaitListed waits for starting extensions whose items belong into the list of c.
	AwaitListed(ctx context.Context, c *protocol.Call)
	// Enter routes a call without sending it. The caller of Enter leaves its snapshot.
	Enter(ctx context.Context, c *protocol.Call) (*dispatch.Call, error)
}

// Options of a [Gateway].
type Options struct {
	Snapshots *snapshot.Store
	Units     *units.Registry
	Hooks     *dispatch.HookEvents
	Beside    *inflight.Gate          // admits work beside calls
	Closing   context.Context         // ends when the host begins to close
	Ended     func(*protocol.Session) // called when a session with an id has ended; nil: ignored
	Changed   func()                  // called when pins of server descriptions have changed
	// reports whether the caller of a failed call will be asked to sign in; nil: never
	Asks func(c *dispatch.Call, err error) bool
	Log  *slog.Logger
}
