package mcpserver

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// A session is unknown as soon as its caller's access has ended, not only once it is removed: somebody else may have
// got the caller's name.
func TestSessionEndsWithItsCallersAccess(t *testing.T) {
	s := New(backendFunc(func(context.Context, *protocol.Call) (json.RawMessage, error) { return nil, nil }), Options{})
	defer s.Close()
	access, end := context.WithCancel(t.Context())
	by := requester{caller: "ada"}
	c := s.newSession(access, "id", protocol.FrontHTTP, by, "", nil)
	s.sessions.add(c)
	if s.sessions.get("id", by, "") != c {
		t.Error("it is unknown")
	}
	end()
	if s.sessions.get("id", by, "") != nil {
		t.Error("it is known without access")
	}
	s.sessions.remove(c)
}
