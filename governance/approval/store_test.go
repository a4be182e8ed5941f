package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

func exchange(caller, arguments string) *governance.Exchange {
	return &governance.Exchange{
		ID:        "d1",
		Method:    "tools/call",
		Caller:    caller,
		Session:   "s1",
		Extension: "files",
		Tool:      "ext_files_delete",
		ToChild:   true,
		Request: []byte(`{"name":"ext_files_delete","arguments":` + arguments + `,"_meta":{"progressToken":` +
			fmt.Sprint(time.Now().Nanosecond()) + `}}`),
	}
}

var asked = governance.ApprovalRequest{Policy: "ask", Flow: governance.Request, Reason: "may it?", Expiry: time.Minute}

type result struct {
	approved bool
	by       string
	err      error
}

// ask calls Ask in the background and returns once the request is pending.
func ask(ctx context.Context, s *Store, x *governance.Exchange) <-chan result {
	done := make(chan result, 1)
	go func() {
		a, err := s.Ask(ctx, x, asked)
		done <- result{a.Approved, a.By, err}
	}()
	synctest.Wait()
	return done
}

func TestApproveAndDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		changed := s.Changed()
		secret := "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
		asked := asked
		asked.Reason = "may it " + secret + "?"
		first := make(chan result, 1)
		go func() {
			a, err := s.Ask(t.Context(), exchange("ann", `{"path":"/a","token":"`+secret+`"}`), asked)
			first <- result{a.Approved, a.By, err}
		}()
		synctest.Wait()
		<-changed
		second := ask(t.Context(), s, exchange("ann", `{"path":"/b"}`))
		list := s.List()
		if len(list) != 2 {
			t.Fatalf("%+v", list)
		}
		q := list[0]
		if q.Caller != "ann" || q.Tool != "ext_files_delete" || q.Policy != "ask" ||
			q.Reason != "may it [redacted:github-pat]?" || q.Decision != "d1" || !q.Waiting ||
			len(q.Hash) != 64 || q.Arguments != `{"path":"/a","token":"[redacted:github-pat]"}` ||
			q.Expires.Sub(q.Since) != time.Minute {
			t.Errorf("%+v", q)
		}
		if err := s.Approve(q.ID, "bob"); err != nil {
			t.Error(err)
		}
		if r := <-first; !r.approved || r.by != "bob" || r.err != nil {
			t.Errorf("%+v", r)
		}
		if err := s.Deny(list[1].ID, "bob", "not today"); err != nil {
			t.Error(err)
		}
		if r := <-second; r.approved || r.by != "bob: not today" || r.err != nil {
			t.Errorf("%+v", r)
		}
		if err := s.Approve(q.ID, "bob"); !errors.Is(err, ErrUnknown) || !strings.HasPrefix(err.Error(), q.ID) {
			t.Errorf("a second use: %v", err)
		}
		if err := s.Approve(q.ID, ""); err == nil {
			t.Error("nobody may approve")
		}
		if len(s.List()) != 0 {
			t.Errorf("%+v", s.List())
		}
	})
}

// TestApprovalWaitsForTheRetry cancels a call, approves it and repeats it.
func TestApprovalWaitsForTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		ctx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
		defer giveUp()
		if r := <-ask(ctx, s, exchange("ann", `{"path":"/a"}`)); r.approved ||
			!errors.Is(r.err, context.DeadlineExceeded) {
			t.Fatalf("%+v", r)
		}
		list := s.List()
		if len(list) != 1 || list[0].Waiting {
			t.Fatalf("%+v", list)
		}
		if err := s.Approve(list[0].ID, "bob"); err != nil {
			t.Fatal(err)
		}
		if err := s.Approve(list[0].ID, "eve"); !errors.Is(err, ErrAnswered) {
			t.Errorf("approved twice: %v", err)
		}
		away := exchange("ann", `{"path":"/a"}`)
		away.Node = "web"
		for name, x := range map[string]*governance.Exchange{
			"another node":    away,
			"another caller":  exchange("eve", `{"path":"/a"}`),
			"other arguments": exchange("ann", `{"path":"/b"}`),
			"another tool": {
				Method:    "tools/call",
				Caller:    "ann",
				Extension: "files",
				Tool:      "ext_files_read",
				Request:   []byte(`{"arguments":{"path":"/a"}}`),
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			done := ask(ctx, s, x)
			cancel()
			if r := <-done; r.approved {
				t.Errorf("%s was let through", name)
			}
		}
		if r := <-ask(t.Context(), s, exchange("ann", `{"path":"/a"}`)); !r.approved || r.by != "bob" {
			t.Errorf("the same call: %+v", r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := ask(ctx, s, exchange("ann", `{"path":"/a"}`))
		cancel()
		if r := <-done; r.approved {
			t.Error("the approval was used twice")
		}
	})
}

func TestApprovalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := ask(ctx, s, exchange("ann", `{}`))
		cancel()
		<-done
		id := s.List()[0].ID
		if err := s.Approve(id, "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // synctest time
		if list := s.List(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		if err := s.Deny(id, "bob", ""); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r := <-ask(ctx, s, exchange("ann", `{}`)); r.approved {
			t.Error("an approval that has expired was used")
		}
		if list := s.List(); len(list) != 0 {
			t.Errorf("a request that has expired stays: %+v", list)
		}
	})
}

// TestRetryJoinsItsRequest repeats a call before anybody has answered: the request keeps
// its id.
func TestRetryJoinsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := ask(ctx, s, exchange("ann", `{}`))
		cancel()
		<-done
		id := s.List()[0].ID
		again := ask(t.Context(), s, exchange("ann", `{}`))
		beside := ask(t.Context(), s, exchange("ann", `{}`)) // a concurrent equal call gets a request of its own
		if list := s.List(); len(list) != 2 || list[0].ID != id || !list[0].Waiting {
			t.Fatalf("%+v", list)
		}
		if err := s.Approve(id, "bob"); err != nil {
			t.Fatal(err)
		}
		if r := <-again; !r.approved {
			t.Errorf("%+v", r)
		}
		select {
		case r := <-beside:
			t.Errorf("one approval let two calls through: %+v", r)
		default:
		}
		if err := s.Deny(s.List()[0].ID, "bob", ""); err != nil {
			t.Error(err)
		}
		<-beside
	})
}

// TestPipelineAsks answers the approval request of a pipeline, once in time and once too late.
func TestPipelineAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		p := governance.NewPipeline(governance.Options{Approver: s},
			governance.Member{
				Spec:   governance.Spec{Name: "ask", Category: governance.Authorization},
				Policy: asks{},
			})
		sent := 0
		call := func() <-chan error {
			done := make(chan error, 1)
			go func() {
				done <- p.Govern(t.Context(), exchange("ann", `{"n":1}`),
					func(context.Context, *governance.Exchange) error { sent++; return nil })
			}()
			synctest.Wait()
			return done
		}
		first := call()
		if err := s.Approve(s.List()[0].ID, "bob"); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil || sent != 1 {
			t.Errorf("approved: %v, sent %d times", err, sent)
		}
		if err := <-call(); protocol.KindOf(err) != protocol.Rejected || sent != 1 ||
			!strings.Contains(err.Error(), "may it?") {
			t.Errorf("not answered: %v, sent %d times", err, sent) // after the expiry, in synctest time
		}
		if list := s.List(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type asks struct{}

func (asks) Decide(_ context.Context, flow governance.Flow, _ *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Response {
		return governance.Decision{}, nil
	}
	return governance.Decision{Action: governance.Ask, Reason: "may it?", Expiry: time.Minute}, nil
}

func TestStrictRequestEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{Strict: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := ask(ctx, s, exchange("ann", `{}`))
		cancel()
		<-done
		if list := s.List(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var waiting []<-chan result
		for i := range maxPending {
			waiting = append(waiting,
				ask(ctx, s, exchange(fmt.Sprint("caller", i%(maxPending/maxPerCaller)), fmt.Sprintf(`{"n":%d}`, i))))
		}
		if _, err := s.Ask(ctx, exchange("caller0", `{}`), asked); err == nil ||
			!strings.Contains(err.Error(), "32 of this caller") {
			t.Error(err)
		}
		if _, err := s.Ask(ctx, exchange("somebody", `{}`), asked); err == nil ||
			!strings.Contains(err.Error(), "256 approval requests wait") {
			t.Error(err)
		}
		cancel()
		for _, w := range waiting {
			<-w
		}
	})
}

// TestOneApprovalOneCall runs approvals, retries and canceled calls concurrently.
func TestOneApprovalOneCall(t *testing.T) {
	s := NewStore(Options{})
	var approved, passed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var operator, callers sync.WaitGroup
	operator.Go(func() {
		for ctx.Err() == nil {
			changed := s.Changed()
			for _, q := range s.List() {
				if s.Approve(q.ID, "bob") == nil {
					approved.Add(1)
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	for range 8 {
		callers.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5)*100*time.Microsecond)
				if a, _ := s.Ask(ctx, exchange("ann", `{}`), asked); a.Approved {
					passed.Add(1)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	stop()
	operator.Wait()
	if passed.Load() > approved.Load() || approved.Load() == 0 {
		t.Errorf("%d approvals, %d calls", approved.Load(), passed.Load())
	}
}
