package bridge

import (
	"testing"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// An instance whose session has ended before its start gets no login, not even that of all callers. Only the first
// caller of a key may use its instance.
func TestEndedSessionGetsNoLogin(t *testing.T) {
	d := &Destination{Unit: new(unit.Unit), sessions: make(map[string]brought)}
	d.login = func(caller string) runtime.Login {
		t.Errorf("asked for the login of %q", caller)
		return nil
	}
	var spec runtime.Spec
	d.prepare(&spec, "session ended")
	d.keep("session x", &protocol.Session{ID: "x", Caller: "ada"})
	d.keep("session x", &protocol.Session{ID: "x", Caller: "bob"})
	d.keep("session y", &protocol.Session{ID: "y"})
	if kept := d.sessions["session x"].caller; kept != "ada" || len(d.sessions) != 1 {
		t.Errorf("%+v", d.sessions)
	}
	if err := d.stranger(&protocol.Session{ID: "x", Caller: "bob"},
		"session x"); protocol.KindOf(err) != protocol.Rejected {
		t.Error(err)
	}
}
