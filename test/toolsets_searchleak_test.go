package test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// looker is a policy that runs a function when it is asked what a caller sees.
type looker struct {
	sentinel
	looked atomic.Pointer[func()] // called once
}

var _ governance.Visibler = (*looker)(nil)

func (l *looker) Visible(string, governance.Tool) bool {
	if f := l.looked.Swap(nil); f != nil {
		(*f)()
	}
	return true
}

// A search session that ends while the host checks whether its list changed is forgotten.
func TestSearchSessionIsForgotten(t *testing.T) {
	processtest.Leaks(t)
	policy := &looker{}
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Add("store", manyTools("store", 1))
	h := f.Open(exthost.Options{Policies: []governance.Member{member("looker", governance.Authorization, policy)}})
	ctx, leave := context.WithCancel(context.Background())
	session := func() weak.Pointer[protocol.Session] {
		s := searching(protocol.Session{ID: "s", Client: hosttest.NewRecorder()})
		if err := h.Attach(ctx, s); err != nil {
			t.Fatal(err)
		}
		return weak.Make(s)
	}()
	ended := make(chan struct{})
	look := func() {
		leave()
		hosttest.Eventually(t, "the session has ended", func() bool { return h.Admin().Measures().Sessions == 0 })
		close(ended)
	}
	policy.looked.Store(&look)
	f.Add("store", manyTools("store", 2))
	reload(t, h)
	<-ended
	hosttest.Eventually(t, "nothing holds the session", func() bool {
		runtime.GC()
		return session.Value() == nil
	})
}
