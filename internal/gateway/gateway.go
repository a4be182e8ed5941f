// Package gateway makes the MCP servers behind the host one server for
// legacy and modern clients.
package gateway

import (
	"context"

	"github.com/exthost/exthost/internal/owners"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
)

// Gateway serves the sessions of clients. Its methods may be called by many goroutines at
// once.
type Gateway struct {
	Calls         Calls // set before the first use of the gateway
	Sessions      *Sessions
	Clients       *Clients
	LogLevels     *LogLevels
	Tasks         *Tasks
	Subscriptions *Subscriptions

	o      Options
	owners owners.Index
}

// New returns a gateway without sessions.
func New(o Options) *Gateway {
	s := newSessions(&o)
	return &Gateway{o: o, Sessions: s, Clients: newClients(&o), LogLevels: newLogLevels(s), Tasks: newTasks(s), Subscriptions: newSubscriptions(s)}
}

// Attach registers s for notifications, such as changed tool lists, until ctx ends. It does
// not block. A host that closes takes no more sessions: the error is shutting_down.
func (g *Gateway) Attach(ctx context.Context, s *protocol.Session) error {
	g.Clients.note(s)
	return g.Sessions.attach(ctx, s, func() (dropped func()) {
		g.LogLevels.drop(s)
		g.Tasks.drop(s)
		idle := g.Subscriptions.drop(s)
		return func() { unsubscribe(idle) }
	})
}

// Resume brings the log level and the subscriptions of sessions to a new instance.
func (g *Gateway) Resume(ctx context.Context, i *unit.Instance) {
	g.LogLevels.resume(ctx, i)
	g.Subscriptions.resume(ctx, i)
}
