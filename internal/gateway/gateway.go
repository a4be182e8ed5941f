// Package gateway makes the MCP servers behind the host one server for clients of either
// era.
package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/inflight"
	"github.com/exthost/exthost/internal/snapshot"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
)

// Calls is the gateway's way back to the host.
type Calls interface {
	// Do carries one call by the path of all calls.
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// Enter returns the target of a call that is not sent. The caller leaves its snapshot.
	Enter(ctx context.Context, c *protocol.Call) (*dispatch.Call, error)
}

// Options of a [Gateway].
type Options struct {
	Snapshots *snapshot.Store
	Units     *unit.Registry
	Hooks     *dispatch.HookEvents
	Beside    *inflight.Gate  // that work beside calls is inside
	Closing   context.Context // ends when the host begins to close
	Log       *slog.Logger
}

// Gateway knows the sessions of clients, and what each follows. Its methods may be called
// by many goroutines at once.
type Gateway struct {
	Calls Calls // set before the first use of the gateway

	o      Options
	tasks  *tasks
	owners owners

	mu            sync.Mutex // guards what follows
	sessions      map[*protocol.Session]*attachment
	subscriptions subscriptions
	logLevels     map[*protocol.Session]int // that sessions asked for, as indexes of logLevels
}

// New returns a gateway without sessions.
func New(o Options) *Gateway {
	return &Gateway{
		o: o, tasks: newTasks(), sessions: make(map[*protocol.Session]*attachment),
		subscriptions: make(subscriptions), logLevels: make(map[*protocol.Session]int),
	}
}
