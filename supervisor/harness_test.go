package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

var (
	errCrash = &protocol.Error{
		Kind:     protocol.ChildExited,
		Message:  "exit status 1",
		Evidence: &protocol.Evidence{Stderr: []string{"boom"}},
	}
	errHang = &protocol.Error{Kind: protocol.CallTimeout, Message: "no answer"}
	errApp  = &protocol.Error{Kind: protocol.ExtensionError, Message: "no such city"}
)

// fake is one instance, controlled by the test.
type fake struct {
	key     string
	say     chan error  // nil: call ready; else return it
	ready   func()      // the argument of Serve
	linger  chan error  // if set, Serve outlives its context until this is closed
	stopped atomic.Bool // its context has ended
}

func (f *fake) Serve(ctx context.Context, ready func()) error {
	f.ready = ready
	for {
		select {
		case err := <-f.say:
			if err != nil {
				return err
			}
			ready()
		case <-ctx.Done():
			f.stopped.Store(true)
			if f.linger != nil {
				<-f.linger
			}
			return ctx.Err()
		}
	}
}

func (f *fake) becomeReady() { f.say <- nil; synctest.Wait() }

func (f *fake) die(err error) {
	select {
	case f.say <- err:
	case f.linger <- err:
	}
	synctest.Wait()
}

// world is a group under test inside a synctest bubble.
type world struct {
	*Group[*fake]
	t     *testing.T
	epoch time.Time

	mu     sync.Mutex
	born   []*fake
	taken  int
	events []Event
}

func newWorld(t *testing.T, o Options) *world {
	w := &world{t: t, epoch: time.Now()}
	o.Name = "weather"
	o.OnEvent = func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 2))
	}
	w.Group = NewGroup(func(key string) (*fake, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f := &fake{key: key, say: make(chan error)}
		w.born = append(w.born, f)
		return f, nil
	}, o)
	return w
}

// inBubble runs test in a synctest bubble, which also proves that no goroutine is left.
func inBubble(t *testing.T, o Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o)
		test(t, w)
		if err := w.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		for _, s := range w.Status() {
			if s.State != Shutdown || s.InFlight != 0 || s.Queued != 0 {
				t.Errorf("after Stop: %+v", s)
			}
		}
	})
}

// take returns the next instance that was started.
func (w *world) take() *fake {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken == len(w.born) {
		w.t.Fatalf("no instance was started at %s", w.elapsed())
	}
	w.taken++
	return w.born[w.taken-1]
}

// noneBorn fails the test if an instance was started that take has not returned.
func (w *world) noneBorn() {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken != len(w.born) {
		w.t.Fatalf("instance %d was started at %s", w.taken+1, w.elapsed())
	}
}

// started runs Start, makes the n instances ready and returns them by key.
func (w *world) started(n int) []*fake {
	w.t.Helper()
	result := w.async(func() error { return w.Start(context.Background()) })
	var all []*fake
	for range n {
		f := w.take()
		f.becomeReady()
		all = append(all, f)
	}
	if err := <-result; err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *fake) int { return strings.Compare(a.key, b.key) })
	return all
}

func (w *world) async(f func() error) chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	synctest.Wait()
	return result
}

func (w *world) elapsed() time.Duration { return time.Since(w.epoch) }

func (w *world) wantState(want State) {
	w.t.Helper()
	synctest.Wait()
	if got := w.Status()[0].State; got != want {
		w.t.Fatalf("state at %s: %s, want %s", w.elapsed(), got, want)
	}
}

// call is one caller.
type call struct {
	result chan answer
	done   bool // answer is set
	answer
}

// answer is the result of Acquire, and when it came.
type answer struct {
	*fake
	release func(error)
	err     error
	at      time.Duration
}

// acquire starts a call and returns once it waits or has its answer.
func (w *world) acquire(key string) *call { return w.acquireCtx(context.Background(), key) }

func (w *world) acquireCtx(ctx context.Context, key string) *call {
	c := &call{result: make(chan answer, 1)}
	go func() {
		f, release, err := w.Acquire(ctx, key)
		c.result <- answer{f, release, err, w.elapsed()}
	}()
	c.look()
	return c
}

// look receives the answer if Acquire has returned.
func (c *call) look() {
	synctest.Wait()
	select {
	case c.answer = <-c.result:
		c.done = true
	default:
	}
}

func (c *call) got(t *testing.T, want *fake) {
	t.Helper()
	c.look()
	if !c.done || c.err != nil || c.fake != want {
		t.Fatalf("call: %+v, want instance %p", c, want)
	}
}

func (c *call) waits(t *testing.T) {
	t.Helper()
	c.look()
	if c.done {
		t.Fatalf("call should wait, got %+v", c)
	}
}

func (c *call) refused(t *testing.T, want protocol.Kind) *protocol.Error {
	t.Helper()
	c.look()
	var e *protocol.Error
	if !c.done || !errors.As(c.err, &e) || e.Kind != want {
		t.Fatalf("call: %+v, want %s", c, want)
	}
	return e
}
