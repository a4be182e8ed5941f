package ndjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

const (
	maxUnwritten    = 4 << 20     // bytes waiting for the pipe beyond which Write blocks
	maxBatch        = 6 << 10     // bytes of frames that are written without waiting for more
	maxKeptBuffer   = 256 << 10   // larger buffers go to largeBuffers
	maxPooledBuffer = 16 << 20    // still larger ones are freed
	maxInlineWrites = 8           // writes by one caller before a goroutine takes over
	readGrace       = time.Second // how long reading goes on after a failed write
)

// writer collects frames and writes them together. A caller that finds no active writer writes itself, without
// blocking. A goroutine writes what the pipe does not take at once; it exists only while bytes wait.
type writer struct {
	w         io.WriteCloser
	pipe      pipe // that w writes
	sink      sink
	timeout   time.Duration
	closeRead func() error
	arrived   atomic.Int32 // lines in the last read
	total     atomic.Uint64
	wg        sync.WaitGroup // the writing goroutine
	held      bool           // answers are held back; for the reading goroutine only

	mu        sync.Mutex
	buf       []byte // whole frames waiting for a writer
	frames    int    // in buf
	writing   []byte // whole frames that are being written
	unwritten int    // bytes of writing that are not in the pipe yet
	busy      bool   // a writer is active and will look at buf again
	batching  bool   // busy, and the writer waits for more frames
	batch     uint64 // number of the latest wait for a batch
	err       error  // why writing has ended
	progress  chan struct{}
	readTimer *time.Timer
}

// sink writes bytes to the peer.
type sink interface {
	// try writes as much as possible without blocking, possibly nothing.
	try(b []byte) (int, error)
	// write writes at least one byte, or returns ErrStalled after timeout.
	write(b []byte, timeout time.Duration) (int, error)
}

func (w *writer) init(wc io.WriteCloser, timeout time.Duration, closeRead func() error) {
	w.w, w.timeout, w.closeRead = wc, timeout, closeRead
	w.sink = newSink(wc)
}

// write queues m. It also writes, unless another writer is active or m may be held back.
func (w *writer) write(ctx context.Context, m *jsonrpc.Message, hold bool) error {
	w.mu.Lock()
	err := w.await(ctx, func() bool { return len(w.buf)+w.unwritten <= maxUnwritten })
	if err != nil {
		w.mu.Unlock()
		return err
	}
	buf, err := jsonrpc.Append(withRoom(w.buf, m), m)
	if err != nil {
		w.mu.Unlock()
		return err
	}
	w.buf = append(buf, '\n')
	w.frames++
	arrived := int(w.arrived.Load())
	complete := w.complete(arrived)
	if hold = hold && !complete; hold {
		w.held = true
	}
	full := w.batching && complete
	if w.busy && !full || hold {
		w.mu.Unlock()
		return nil
	}
	w.busy = true
	w.batching = arrived > 1 && !full
	batches := w.batching
	w.batch++
	batch := w.batch
	w.mu.Unlock()
	if batches && !w.waitForBatch(batch) {
		return nil
	}
	return w.writeInline()
}

// complete reports whether the frames in buf should be written without waiting for more; mu is
// held. Half as many frames as lines that arrived together make a batch, so that the peer handles
// one half while this side makes the other.
func (w *writer) complete(arrived int) bool {
	return len(w.buf) >= maxBatch || arrived > 1 && w.frames >= max(2, arrived/2)
}

// waitForBatch yields once, so that callers whose answers arrived together can add their next frames to the same
// write. It returns false if another goroutine has written this batch meanwhile; a later batch and its error belong
// to other callers.
func (w *writer) waitForBatch(batch uint64) bool {
	runtime.Gosched()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.batching || w.batch != batch {
		return false
	}
	w.batching = false
	return true
}

// flushHeld writes the held answers. Only the reading goroutine may call it.
func (w *writer) flushHeld() {
	if !w.held {
		return
	}
	w.held = false
	w.mu.Lock()
	mine := !w.busy && len(w.buf) > 0
	w.busy = w.busy || mine
	w.mu.Unlock()
	if mine {
		_ = w.writeInline() // the next read reports the error
	}
}

// writeInline writes as much as the pipe takes without blocking. The caller has set busy. It returns the error of the
// first write, which contains the caller's own frame.
func (w *writer) writeInline() error {
	for round := range maxInlineWrites {
		b := w.nextBatch()
		if b == nil {
			return nil
		}
		n, err := w.sink.try(b)
		w.written(n)
		switch {
		case err != nil && round == 0 && n > 0:
			return jsonrpc.MaybeWritten(w.fail(err))
		case err != nil && round == 0:
			return w.fail(err)
		case err != nil:
			w.fail(err)
			return nil
		case n < len(b):
			w.writeInBackground(b[n:])
			return nil
		}
	}
	w.writeInBackground(nil)
	return nil
}

// nextBatch returns the frames to write next. If there are none, it clears busy.
func (w *writer) nextBatch() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	spare := kept(w.writing)
	w.writing = spare
	if len(w.buf) == 0 || w.err != nil {
		w.busy = false
		w.wake()
		return nil
	}
	w.writing, w.buf = w.buf, spare
	w.unwritten, w.frames = len(w.writing), 0
	return w.writing
}

// written counts bytes taken by the pipe.
func (w *writer) written(n int) {
	w.total.Add(uint64(n))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil { // otherwise all that was unwritten is dropped already
		w.unwritten -= n
		w.wake()
	}
}

// wake wakes the goroutines in await; mu is held.
func (w *writer) wake() {
	if w.progress != nil {
		close(w.progress)
		w.progress = nil
	}
}

// await waits until ok returns true, writing fails, or ctx ends; mu is held.
func (w *writer) await(ctx context.Context, ok func() bool) error {
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

// writeInBackground starts a goroutine that writes b and all further frames.
func (w *writer) writeInBackground(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.wg.Go(func() { w.writeAll(b) })
	}
}

func (w *writer) writeAll(b []byte) {
	for {
		for len(b) > 0 {
			n, err := w.sink.write(b, w.timeout)
			w.written(n)
			if err != nil {
				w.fail(err)
				return
			}
			if b = b[n:]; len(b) > biggestBuffer {
				w.pipe.enlarge(w.w)
			}
		}
		if b = w.nextBatch(); b == nil {
			return
		}
	}
}

// fail ends writing and returns the reason. Reading goes on for readGrace, because a peer that only closed its input
// may have sent answers.
func (w *writer) fail(err error) error {
	stalled := errors.Is(err, ErrStalled)
	if !stalled {
		err = fmt.Errorf("write: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	grace := readGrace
	if stalled {
		grace = 0
	}
	w.readTimer = time.AfterFunc(grace, func() { _ = w.closeRead() })
	w.endLocked(fmt.Errorf("%w: %w", jsonrpc.ErrClosed, err))
	return w.err
}

// endLocked ends writing and drops the frames that are not written; mu is held.
func (w *writer) endLocked(reason error) {
	w.err = reason
	w.buf, w.writing, w.unwritten = nil, nil, 0
	w.wake()
}

// flush waits until the pipe has taken all frames.
func (w *writer) flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy && len(w.buf) > 0 && w.err == nil {
		w.busy = true
		w.wg.Go(func() { w.writeAll(nil) })
	}
	return w.await(ctx, func() bool { return !w.busy })
}

// readError returns the cause of a failed read, which may be an earlier failed write.
func (w *writer) readError(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || err == io.EOF && !errors.Is(w.err, ErrStalled) {
		return err
	}
	return w.err
}

// close ends writing and waits for the writing goroutine.
func (w *writer) close() error {
	w.mu.Lock()
	if w.err == nil {
		w.endLocked(jsonrpc.ErrClosed)
	}
	if w.readTimer != nil {
		w.readTimer.Stop()
	}
	w.mu.Unlock()
	err := w.w.Close()
	w.wg.Wait()
	w.pipe.close()
	return err
}
