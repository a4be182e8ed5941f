package pair

import "context"

// workers run incoming calls on goroutines that wait for further calls: a call needs a deep stack, which a
// new goroutine would have to grow in several steps.
type workers struct {
	next chan func() // unbuffered: only a waiting worker receives
}

// run runs f on a waiting worker. It reports false if there is none.
func (w *workers) run(f func()) bool {
	select {
	case w.next <- f:
		return true
	default:
		return false
	}
}

// work runs f and further functions until ctx ends or endOne stops the worker.
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

// endOne ends one waiting worker, if there is one.
func (w *workers) endOne() { w.run(nil) }

// goCall runs f for an incoming call. It reports false once the pairs are closed.
func (p *Pairs) goCall(f func()) bool {
	return p.workers.run(f) || p.work.Go(func() { p.workers.work(p.ctx, f) })
}
