package governance_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

func TestCloseWaits(t *testing.T) {
	p := governance.NewPipeline(governance.Options{}, member("p", governance.Validation, always(governance.Decision{})))
	inside, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- p.Govern(t.Context(), toolCall(), func(ctx context.Context, x *governance.Exchange) error {
			close(inside)
			<-release
			// A request of the extension during the call is part of the call.
			return p.Govern(ctx, &governance.Exchange{Method: "sampling/createMessage"}, answer(`{}`, nil))
		})
	}()
	<-inside
	hurry, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := p.Close(hurry); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close = %v while an exchange was under way", err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	sent := "nothing"
	err := p.Govern(t.Context(), toolCall(), answer(`{}`, &sent))
	if !errors.Is(err, governance.ErrClosed) || protocol.KindOf(err) != protocol.ShuttingDown || sent != "nothing" {
		t.Errorf("after Close: %v, %s was sent", err, sent)
	}
	if _, err := p.Test(t.Context(), toolCall()); !errors.Is(err, governance.ErrClosed) {
		t.Errorf("Test after Close: %v", err)
	}
}

// TestAnExchangeUsesOnePipeline replaces the pipeline under load and closes the previous one at
// once.
func TestAnExchangeUsesOnePipeline(t *testing.T) {
	type stamp struct{}
	var current atomic.Pointer[governance.Pipeline]
	build := func(number int) *governance.Pipeline {
		note := policyFunc(func(ctx context.Context, _ governance.Flow,
			_ *governance.Exchange) (governance.Decision, error) {
			seen := ctx.Value(stamp{}).(*[]int)
			*seen = append(*seen, number)
			return governance.Decision{}, nil
		})
		return governance.NewPipeline(governance.Options{}, member("a", governance.Validation, note),
			member("b", governance.Content, note))
	}
	current.Store(build(0))
	swapped := make(chan struct{})
	var callers sync.WaitGroup
	var passed atomic.Int64
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-swapped:
					return
				default:
				}
				var seen []int
				ctx := context.WithValue(t.Context(), stamp{}, &seen)
				err := governance.ErrClosed
				for errors.Is(err, governance.ErrClosed) { // as the host does
					err = current.Load().Govern(ctx, toolCall(), answer(`{}`, nil))
				}
				if err != nil || len(seen) != 4 || seen[0] != seen[3] || seen[1] != seen[2] || seen[0] != seen[1] {
					t.Errorf("%v: pipelines %v", err, seen)
					return
				}
				passed.Add(1)
				runtime.Gosched() // let the swapping goroutine run
			}
		})
	}
	// the scheduler decides how often each side runs
	for n := 1; !t.Failed() && (n <= 1000 || passed.Load() < 1000); n++ {
		if err := current.Swap(build(n)).Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(swapped)
	callers.Wait()
	if err := current.Load().Close(t.Context()); err != nil || passed.Load() == 0 {
		t.Errorf("%v, %d exchanges", err, passed.Load())
	}
}
