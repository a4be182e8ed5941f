package unit

import (
	"context"
	"iter"
	"runtime"
	"sync"
)

// startsAtOnce bounds how many units start in parallel. A start is mostly a wait for a
// child, and a child that hangs must not delay the others for long.
var startsAtOnce = 16 * runtime.GOMAXPROCS(0)

// StartEach starts the units of list, a bounded number at a time, and yields each with its
// outcome as it has one. It returns when all have started or failed.
func StartEach(ctx context.Context, list []Runner) iter.Seq2[Runner, error] {
	type outcome struct {
		u   Runner
		err error
	}
	return func(yield func(Runner, error) bool) {
		var wg sync.WaitGroup
		slots, outcomes := make(chan struct{}, startsAtOnce), make(chan outcome, len(list))
		for _, u := range list {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				outcomes <- outcome{u, u.Start(ctx)}
			})
		}
		go func() { wg.Wait(); close(outcomes) }()
		more := true
		for o := range outcomes {
			more = more && yield(o.u, o.err)
		}
	}
}
