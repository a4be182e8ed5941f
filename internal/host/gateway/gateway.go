// Package gateway presents the MCP servers behind the host as one server for legacy and modern clients.
package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/tasks"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/owners"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/protocol"
)

// Gateway serves the sessions of clients. It is safe for concurrent use.
type Gateway struct {
	Calls         Calls // set before the first use of the gateway
	Sessions      *Sessions
	Clients       *Clients
	LogLevels     *LogLevels
	Tasks         *tasks.Tasks
	Subscriptions *Subscriptions
	SignIns       *SignIns

	o      Options
	owners owners.Index
	told   told
	lists  searchLists
}

// New returns a gateway without sessions.
func New(o Options) *Gateway {
	s := newSessions(&o)
	return &Gateway{
		o:             o,
		Sessions:      s,
		Clients:       newClients(&o),
		LogLevels:     newLogLevels(s),
		Tasks:         tasks.New(s),
		Subscriptions: newSubscriptions(s),
		SignIns:       &SignIns{o: &o},
	}
}

// Attach registers s for notifications, such as changed tool lists, until ctx ends. It does not block. The error
// is shutting_down once the host is closed, tool_not_found for an unknown toolset.
func (g *Gateway) Attach(ctx context.Context, s *protocol.Session) error {
	now := g.o.Snapshots.Load()
	view, err := now.View(s)
	if err != nil {
		return err
	}
	g.told.attached(now, view, s.Toolset)
	g.Clients.note(s)
	g.lists.note(now, s)
	err = g.Sessions.attach(ctx, s, func() (dropped func()) {
		g.lists.drop(s)
		logged := g.LogLevels.drop(s)
		g.Tasks.Drop(s)
		idle := g.Subscriptions.drop(s)
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
			defer cancel()
			g.Subscriptions.unsubscribeIdle(ctx, idle)
			if logged {
				g.raiseLogLevels(ctx)
			}
		}
	})
	if err != nil {
		g.lists.drop(s)
	}
	return err
}

// raiseLogLevels sets the instances to the log level that the remaining sessions want.
func (g *Gateway) raiseLogLevels(ctx context.Context) {
	for _, r := range g.o.Units.All() {
		for _, i := range r.Base().Instances() {
			g.LogLevels.resume(ctx, i)
		}
	}
}

// dropTimeout bounds the requests to extensions at the end of a session.
const dropTimeout = 2 * time.Second

// view returns the current view of a session.
func (g *Gateway) view(s *protocol.Session) (*toolset.View, error) {
	return g.o.Snapshots.Load().View(s)
}

// Resume sets the log level and the subscriptions of a new instance.
func (g *Gateway) Resume(ctx context.Context, i *unit.Instance) {
	g.LogLevels.resume(ctx, i)
	g.Subscriptions.resume(ctx, i)
}

// Calls lets the gateway make calls.
type Calls interface {
	// DoPart makes a call that is part of answering another call.
	DoPart(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// AwaitListed waits for starting extensions whose items belong in the list that c requests.
	AwaitListed(ctx context.Context, c *protocol.Call)
	// Enter routes a call without sending it. The caller of Enter must leave the snapshot of the result.
	Enter(ctx context.Context, c *protocol.Call) (*dispatch.Call, error)
}

// Options of a [Gateway].
type Options struct {
	Snapshots *snapshot.Store
	Units     *unit.Registry
	Hooks     *dispatch.HookEvents
	Beside    *concurrent.Gate        // admits work that belongs to no call
	Closing   context.Context         // ends when the host begins to close
	Ended     func(*protocol.Session) // called when a session with an id has ended; nil: ignored
	Changed   func()                  // called when pins of server descriptions have changed
	Log       *slog.Logger
}
