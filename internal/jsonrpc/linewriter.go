package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxPending   = 4 << 20   // bytes waiting for the pipe, before a frame is added
	enough       = 6 << 10   // bytes of frames that are worth a write: the peer begins on them while others come
	maxHeld      = 6 << 10   // bytes of answers held back: each lets its caller go on
	keepBuffer   = 256 << 10 // a bigger buffer is not kept for the next write
	inlineRounds = 8         // writes a caller makes for others before a goroutine does
	lastWords    = time.Second
)

// lineWriter collects frames and writes them together. Whoever finds nobody
// writing writes, without ever blocking; what the pipe does not take at once is
// left to a goroutine that lives only as long as something waits.
type lineWriter struct {
	w         io.WriteCloser
	sink      sink
	timeout   time.Duration
	closeRead func() error
	burst     atomic.Bool // the last read brought several lines
	total     atomic.Uint64
	wg        sync.WaitGroup // the writing goroutine
	held      bool           // the reading goroutine holds answers back

	mu        sync.Mutex
	buf       []byte // whole frames that nobody is writing yet
	flying    []byte // whole frames that are being written
	rest      int    // how many bytes of flying the pipe has not taken
	busy      bool   // somebody is writing and will look at buf again
	gathering bool   // busy, and waits for more frames to write with
	err       error  // why nothing can be written any more
	progress  chan struct{}
	grace     *time.Timer
}

// sink is where bytes go.
type sink interface {
	// try writes what can be written at once, maybe nothing.
	try(b []byte) (int, error)
	// write writes something, or fails with ErrStalled after timeout.
	write(b []byte, timeout time.Duration) (int, error)
}

func (w *lineWriter) init(wc io.WriteCloser, timeout time.Duration, closeRead func() error) {
	w.w, w.timeout, w.closeRead = wc, timeout, closeRead
	w.sink = newSink(wc)
}

// write queues m and, unless somebody else is writing or it may be held back,
// writes.
func (w *lineWriter) write(ctx context.Context, m *Message, hold bool) error {
	w.mu.Lock()
	err := w.await(ctx, func() bool { return len(w.buf)+w.rest <= maxPending })
	if err != nil {
		w.mu.Unlock()
		return err
	}
	buf, err := Append(w.buf, m)
	if err != nil {
		w.mu.Unlock()
		return err
	}
	w.buf = append(buf, '\n')
	if hold = hold && len(w.buf) < maxHeld; hold {
		w.held = true
	}
	full := w.gathering && len(w.buf) >= enough
	if w.busy && !full || hold {
		w.mu.Unlock()
		return nil
	}
	w.busy = true
	w.gathering = w.burst.Load() && !full
	gathers := w.gathering
	w.mu.Unlock()
	if gathers && !w.gathered() {
		return nil
	}
	return w.writeInline()
}

// gathered lets the callers of answers that came together write together, and
// reports whether the writing is still to be done.
func (w *lineWriter) gathered() bool {
	runtime.Gosched()
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.gathering
	w.gathering = false
	return mine
}

// flushHeld writes the answers held back. Only the reading goroutine calls it.
func (w *lineWriter) flushHeld() {
	if !w.held {
		return
	}
	w.held = false
	w.mu.Lock()
	mine := !w.busy && len(w.buf) > 0
	w.busy = w.busy || mine
	w.mu.Unlock()
	if mine {
		_ = w.writeInline() // the next read will tell
	}
}

// writeInline writes what the pipe takes at once. The caller has set busy. Its
// error concerns the first frames, among them the caller's.
func (w *lineWriter) writeInline() error {
	for round := range inlineRounds {
		b := w.next()
		if b == nil {
			return nil
		}
		n, err := w.sink.try(b)
		w.took(n)
		switch {
		case err != nil && round == 0 && n > 0:
			return writtenError{w.fail(err)}
		case err != nil && round == 0:
			return w.fail(err)
		case err != nil:
			w.fail(err)
			return nil
		case n < len(b):
			w.handOver(b[n:])
			return nil
		}
	}
	w.handOver(nil)
	return nil
}

// next takes what is to be written next; with nothing left it gives up being busy.
func (w *lineWriter) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) == 0 || w.err != nil {
		w.busy = false
		w.tell()
		return nil
	}
	spare := w.flying
	if cap(spare) > keepBuffer {
		spare = nil
	}
	w.flying, w.buf = w.buf, spare[:0]
	w.rest = len(w.flying)
	return w.flying
}

// took counts bytes that the pipe has taken.
func (w *lineWriter) took(n int) {
	w.total.Add(uint64(n))
	w.mu.Lock()
	w.rest -= n
	w.tell()
	w.mu.Unlock()
}

// tell wakes those who wait for progress; mu is held.
func (w *lineWriter) tell() {
	if w.progress != nil {
		close(w.progress)
		w.progress = nil
	}
}

// await returns when ok does or nothing can be written any more; mu is held.
func (w *lineWriter) await(ctx context.Context, ok func() bool) error {
	for w.err == nil && !ok() {
		if w.progress == nil {
			w.progress = make(chan struct{})
		}
		progress := w.progress
		w.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			w.mu.Lock()
			return ctx.Err()
		}
		w.mu.Lock()
	}
	return w.err
}

// handOver leaves the writing to a goroutine.
func (w *lineWriter) handOver(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.wg.Go(func() { w.writeAll(b) })
	}
}

func (w *lineWriter) writeAll(b []byte) {
	for {
		for len(b) > 0 {
			n, err := w.sink.write(b, w.timeout)
			w.took(n)
			if err != nil {
				w.fail(err)
				return
			}
			b = b[n:]
		}
		if b = w.next(); b == nil {
			return
		}
	}
}

// fail ends the writing and returns why. A peer that only closed its end may have
// answers on the way: reading goes on a little.
func (w *lineWriter) fail(err error) error {
	stalled := errors.Is(err, ErrStalled)
	if !stalled {
		err = fmt.Errorf("write: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.err = closed(err)
	patience := lastWords
	if stalled {
		patience = 0
	}
	w.grace = time.AfterFunc(patience, func() { _ = w.closeRead() })
	w.buf, w.flying, w.rest = nil, nil, 0
	w.tell()
	return w.err
}

// flush waits until the pipe has taken everything.
func (w *lineWriter) flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy && len(w.buf) > 0 && w.err == nil {
		w.busy = true
		w.wg.Go(func() { w.writeAll(nil) })
	}
	return w.await(ctx, func() bool { return !w.busy })
}

// reason returns why reading really failed with err.
func (w *lineWriter) reason(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || err == io.EOF && !errors.Is(w.err, ErrStalled) {
		return err
	}
	return w.err
}

// close ends the writing and waits for the goroutine.
func (w *lineWriter) close() error {
	w.mu.Lock()
	if w.err == nil {
		w.err = ErrClosed
		w.tell()
	}
	if w.grace != nil {
		w.grace.Stop()
	}
	w.mu.Unlock()
	err := w.w.Close()
	w.wg.Wait()
	return err
}
