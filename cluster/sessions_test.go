package cluster

import (
	"context"
	"testing"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// attaching counts the attached sessions.
type attaching struct {
	peers.Host
	sessions []context.Context
}

func (a *attaching) Attach(ctx context.Context, _ *protocol.Session) error {
	a.sessions = append(a.sessions, ctx)
	return nil
}

// A call that arrives after the end of its session does not start the session again, since nobody would end
// it.
func TestCallAfterTheEndOfItsSession(t *testing.T) {
	h := new(attaching)
	g := newRemoteSessions(t.Context(), func(wire.Address, string, string) protocol.Peer { return nil })
	from, s := wire.Address{Node: "gpu1", Run: wire.NewRun()}, &wire.Session{ID: "s"}
	if _, err := g.session(h, from, "x", s); err != nil {
		t.Fatal(err)
	}
	g.end(from, "s")
	if _, err := g.session(h, from, "x", s); protocol.KindOf(err) != protocol.Canceled {
		t.Errorf("%v", err)
	}
	if len(h.sessions) != 1 || h.sessions[0].Err() == nil {
		t.Errorf("%d sessions are attached", len(h.sessions))
	}
	if _, err := g.session(h, from, "x", &wire.Session{ID: "another"}); err != nil {
		t.Error(err)
	}
}

// IfAttached reports that no session is attached.
func (a *attaching) IfAttached(*protocol.Session, func()) bool { return false }

// A call whose session ends concurrently is not recorded, since nobody would tell the run of the end.
func TestCallOfAnEndedSession(t *testing.T) {
	var a localSessions
	if a.note(new(attaching), &protocol.Session{ID: "s"}, wire.Address{Node: "gpu1", Run: wire.NewRun()}) ||
		len(a.byID) != 0 {
		t.Errorf("%d sessions are noted", len(a.byID))
	}
}

// The sessions of a node are bounded, however many runs it claims to have.
func TestSessionsOfManyRunsAreBounded(t *testing.T) {
	h := new(attaching)
	g := newRemoteSessions(t.Context(), func(wire.Address, string, string) protocol.Peer { return nil })
	for range 2 {
		from := wire.Address{Node: "gpu1", Run: wire.NewRun()}
		for range maxSessions {
			_, _ = g.session(h, from, "x", &wire.Session{ID: wire.NewRun()})
		}
	}
	if len(h.sessions) != maxSessions {
		t.Errorf("%d sessions are attached", len(h.sessions))
	}
	if _, err := g.session(h, wire.Address{Node: "gpu2", Run: wire.NewRun()}, "x", &wire.Session{ID: "s"}); err != nil {
		t.Errorf("another node: %v", err)
	}
}
