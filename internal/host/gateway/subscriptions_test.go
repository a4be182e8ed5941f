package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// The bound on followed resources is per session.
func TestSubscriptionsAreBounded(t *testing.T) {
	l, ada, bob := newSubscriptions(nil), new(protocol.Session), new(protocol.Session)
	at := func(n int) subscription { return subscription{uri: fmt.Sprintf("test://%04d", n)} }
	n := 0
	for ; l.hasRoom(at(n), ada); n++ {
		l.add(at(n), ada)
		l.add(at(n), ada)
	}
	if n < 256 || n > maxFollowed/256 || len(l.followedBy(ada)) != n {
		t.Errorf("%d resources are followed", n)
	}
	if !l.hasRoom(at(0), ada) || !l.hasRoom(at(n), bob) ||
		l.hasRoom(subscription{uri: strings.Repeat("x", maxFollowed)}, bob) {
		t.Error("what is followed already, or by another, is counted")
	}
	l.remove(at(0), ada)
	l.remove(at(0), ada)
	if !l.hasRoom(at(n), ada) {
		t.Error("what is followed no more is counted")
	}
	if idle := l.drop(ada); len(idle) != n-1 || len(l.to)+len(l.bytes) != 0 {
		t.Errorf("%d are idle, %d and %d are left", len(idle), len(l.to), len(l.bytes))
	}
}

// The extension is unsubscribed only while no session follows the resource, even if another session subscribes,
// unsubscribes or ends at the same time.
func TestSubscriptionsAgreeWithTheExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := newSessions(&Options{})
		l, to := newSubscriptions(sessions), subscription{uri: "test://note"}
		ada, bob := new(protocol.Session), new(protocol.Session)
		for _, s := range []*protocol.Session{ada, bob} {
			sessions.attached[s] = new(attachment)
		}
		subscribed := false
		ask := func(now bool) func() error {
			return func() error { subscribed = now; return nil }
		}
		if err := l.subscribe(t.Context(), to, ada, ask(true)); err != nil {
			t.Fatal(err)
		}

		answer := make(chan struct{})
		done := make(chan error, 2)
		go func() {
			done <- l.subscribe(t.Context(), to, bob, func() error { subscribed = true; <-answer; return nil })
		}()
		synctest.Wait() // the extension has the request of bob
		go func() { done <- l.unsubscribe(t.Context(), to, ada, ask(false)) }()
		synctest.Wait()
		close(answer)
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		if !subscribed {
			t.Error("bob follows the resource, and the extension was asked to unsubscribe")
		}

		if err := l.unsubscribe(t.Context(), to, bob, ask(false)); err != nil || subscribed {
			t.Errorf("after the last session: subscribed %v, %v", subscribed, err)
		}
		if len(l.to)+len(l.bytes) != 0 {
			t.Errorf("%d resources and %d sessions are left", len(l.to), len(l.bytes))
		}
	})
}

// A session stops waiting for its turn when its call ends, and leaves nothing behind.
func TestSubscriptionsDoNotWaitForever(t *testing.T) {
	l, to, s := newSubscriptions(nil), subscription{uri: "test://note"}, new(protocol.Session)
	end, err := l.turn(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = l.subscribe(ctx, to, s, func() error { t.Error("asked out of turn"); return nil })
	if protocol.KindOf(err) != protocol.Canceled {
		t.Error(err)
	}
	if end(); len(l.to) != 0 {
		t.Errorf("%d resources are left", len(l.to))
	}
}

// at returns a call that has been given to an instance with these options.
func at(kind, method string, s *protocol.Session, o manifest.Options) *dispatch.Call {
	m := &manifest.Manifest{Transport: manifest.Transport{Kind: kind}}
	return &dispatch.Call{
		Exchange: new(governance.Exchange),
		Request:  &protocol.Call{Session: s, Method: method},
		Instance: &unit.Instance{Unit: &unit.Unit{Spec: &runtime.Spec{Manifest: m, Options: o}}},
	}
}

// Another node itself shares a resource between the sessions of this host, so the node gets every request of each
// session.
func TestSubscriptionsAtAnotherNode(t *testing.T) {
	sessions := newSessions(&Options{})
	l, ada, bob := newSubscriptions(sessions), new(protocol.Session), new(protocol.Session)
	var sent []string
	stage := l.ShareSubscriptions(
		func(_ context.Context, c *dispatch.Call, _ json.RawMessage) (json.RawMessage, error) {
			sent = append(sent, c.Request.Method)
			return nil, nil
		})
	for _, s := range []*protocol.Session{ada, bob} {
		sessions.attached[s] = new(attachment)
		c := at(status.TransportCluster, protocol.MethodResourcesSubscribe, s, manifest.Options{})
		if _, err := stage(t.Context(), c, json.RawMessage(`{"uri":"test://note"}`)); err != nil {
			t.Error(err)
		}
	}
	c := at(status.TransportCluster, protocol.MethodResourcesUnsubscribe, ada, manifest.Options{})
	if _, err := stage(t.Context(), c, json.RawMessage(`{"uri":"test://note"}`)); err != nil {
		t.Error(err)
	}
	if len(sent) != 3 || len(l.to)+len(l.bytes) != 0 {
		t.Errorf("sent %q, and %d resources and %d sessions are kept here", sent, len(l.to), len(l.bytes))
	}
}

// Sessions that subscribe at an extension that does not answer wait for two call_timeouts at most: one for their
// turn, one for their answer.
func TestSubscriptionsOfAHungExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Minute
		l := newSubscriptions(newSessions(&Options{}))
		stage := l.ShareSubscriptions(func(context.Context, *dispatch.Call, json.RawMessage) (json.RawMessage, error) {
			time.Sleep(timeout)
			return nil, errors.New("no answer")
		})
		began, done := time.Now(), make(chan error)
		const sessions = 20
		for range sessions {
			go func() {
				c := at(manifest.KindStdio, protocol.MethodResourcesSubscribe, new(protocol.Session),
					manifest.Options{CallTimeout: timeout})
				_, err := stage(t.Context(), c, json.RawMessage(`{"uri":"test://note"}`))
				done <- err
			}()
		}
		for range sessions {
			if <-done == nil {
				t.Error("it is subscribed")
			}
		}
		if took := time.Since(began); took > 2*timeout {
			t.Errorf("the last has waited for %v", took)
		}
	})
}

// starting is an instance that becomes ready when the test says so.
type starting struct {
	runtime.Instance
	ready chan struct{}
	asked chan string
}

func (s starting) Serve(ctx context.Context, ready func()) error {
	select {
	case <-s.ready:
		ready()
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

func (s starting) Call(_ context.Context, r *runtime.Request) (json.RawMessage, error) {
	s.asked <- r.Method
	return json.RawMessage("{}"), nil
}

func (starting) Handshake() *runtime.Handshake { return new(runtime.Handshake) }
func (starting) Info() (i runtime.Info)        { return i }

// While an ended session waits for an instance in order to unsubscribe, other sessions can subscribe to the same
// resource.
func TestUnsubscribingWaitsForTheInstanceOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting{ready: make(chan struct{}), asked: make(chan string, 1)}
		m := &manifest.Manifest{
			Transport: manifest.Transport{Kind: manifest.KindStdio, Protocol: manifest.ProtocolNative},
		}
		u := unit.New(&unit.Env{Log: slog.New(slog.DiscardHandler)}, unit.Options{
			Candidate: discovery.Candidate{ID: "x", Manifest: m},
			Spec: runtime.Spec{
				ID:       "x",
				Manifest: m,
				Options: manifest.Options{
					Activation:  manifest.ActivationLazy,
					CallTimeout: time.Minute,
					MaxInFlight: 1,
					MaxQueue:    1,
				},
			},
			Start: func(runtime.Spec, string) (runtime.Instance, error) { return s, nil },
		})
		defer func() { _ = u.Stop(t.Context(), 0) }()
		sessions := newSessions(&Options{})
		l, bob := newSubscriptions(sessions), new(protocol.Session)
		sessions.attached[bob] = new(attachment)
		idle := []subscription{{unit: u, uri: "test://a"}, {unit: u, uri: "test://b"}}
		done := make(chan struct{})
		go func() {
			l.unsubscribeIdle(t.Context(), idle)
			close(done)
		}()
		synctest.Wait() // the unit starts
		ctx, cancel := context.WithTimeout(t.Context(), dropTimeout)
		defer cancel()
		if err := l.subscribe(ctx, idle[0], bob, func() error { return nil }); err != nil {
			t.Error(err)
		}
		close(s.ready)
		<-done
		if len(s.asked) != 1 {
			t.Errorf("asked %d times, want once, for the resource that bob does not follow", len(s.asked))
		}
	})
}
