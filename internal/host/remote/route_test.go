package remote

import (
	"testing"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// A session that ends during its call is not pinned to a node: nothing would ever unpin it.
func TestEndedSessionIsNotPinned(t *testing.T) {
	for _, attached := range []bool{true, false} {
		s := &set{
			instances: make(map[string]*unit.Instance),
			pinned:    make(map[*protocol.Session]pin),
			attached: func(_ *protocol.Session, f func()) bool {
				if attached {
					f()
				}
				return attached
			},
		}
		p := &peers.Place{Node: "gpu1", Offer: peers.Offer{PerSession: true}}
		s.places = []*peers.Place{p}
		session := &protocol.Session{ID: "s"}
		s.took(unit.Want{Session: session}, p, new(unit.Instance))
		if pinned := s.pinned[session].node == "gpu1"; pinned != attached {
			t.Errorf("attached %v, pinned %v", attached, pinned)
		}
	}
}
