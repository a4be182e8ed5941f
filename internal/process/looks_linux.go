package process

import (
	"os"
	"sync"
)

// looks are looks at all processes of the system, one at a time. Everybody who asks before a
// look begins shares it: children that die together would otherwise each read all of /proc,
// where the others are.
type looks struct {
	since uint64 // marks of older processes are not read

	turn sync.Mutex // held by the look that is under way

	mu   sync.Mutex // guards next
	next *look      // that has not begun; nil when nobody waits for one
}

// look is what one look saw, once await has returned.
type look struct {
	of   *looks
	once sync.Once
	seen []procStat
}

// hostLooks returns the looks for the children of this process.
func hostLooks() *looks { return &looks{since: startTime(os.Getpid())} }

// join returns the next look that begins.
func (l *looks) join() *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &look{of: l}
	}
	return l.next
}

// await waits for the look, and returns all processes. The result is shared.
func (k *look) await() []procStat {
	k.once.Do(func() {
		k.of.turn.Lock()
		defer k.of.turn.Unlock()
		k.of.mu.Lock()
		k.of.next = nil // whoever asks from now on needs a later one
		k.of.mu.Unlock()
		var r procReader
		k.seen = r.processes(nil, k.of.since)
	})
	return k.seen
}
