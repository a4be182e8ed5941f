package pair

import "context"

// workers run the calls of other runs on goroutines that wait for the next one: the stack of a call is
// deep, and a new goroutine has to grow its own several times.
type workers struct {
	next chan func() // unbuffered: it is taken by a worker that waits
}

// run runs f on a worker that waits, and reports false if there is none.
func (w *workers) run(f func()) bool {
	select {
	case w.next <- f:
		return true
	default:
		return false
	}
}

// work runs f, and what comes after it until ctx or the worker ends.
func (w *workers) work(ctx context.Context, f func()) {
	for f != nil {
		f()
		select {
		case f = <-w.next:
		case <-ctx.Done():
			return
		}
	}
}

// endOne ends one worker that waits, if there is one.
func (w *workers) endOne() { w.run(nil) }

// goCall runs a call of another run. It reports false, and does not run it, once the pairs are closed.
func (p *Pairs) goCall(f func()) bool {
	return p.workers.run(f) || p.work.Go(func() { p.workers.work(p.ctx, f) })
}
