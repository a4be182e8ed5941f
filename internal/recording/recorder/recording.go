package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/redact"
)

const (
	maxQueue = 32 << 20             // queued bytes from which calls block
	urgent   = 1 << 20              // queued bytes from which the writer starts at once
	overhead = 256                  // bytes counted per record besides its payload
	linger   = 5 * time.Millisecond // how long the writer waits for more records, so that it wakes less often
	maxWait  = 10 * time.Second     // how long a call blocks on a full queue
	flushing = 10 * time.Second     // how long End waits for the writer
)

// Options configure a recording.
type Options struct {
	// To receives the cassette in whole lines, from one goroutine.
	To io.Writer
	// File is the file name that [Hub.Describe] reports; may be "".
	File string
	// ID is the id for [Hub.Stop]; "" if it cannot be stopped that way.
	ID string
	// Extensions are the ids of the recorded extensions; nil records all.
	Extensions []string
	// MaxBytes limits the cassette; 0 means [cassette.MaxSize]. The recording ends at the limit.
	MaxBytes int64
	// Ended is called once, on a goroutine of the recording, when the recording ends by itself: at MaxBytes, or
	// because To failed. May be nil.
	Ended func(err error)

	maxWait time.Duration // set by tests
}

// Recording is one recording under way.
type Recording struct {
	hub      *Hub
	o        Options          // with defaults
	cassette *cassette.Writer // used only by write
	begun    time.Time
	lastRun  int // guarded by hub.mu

	records, omitted atomic.Int64 // numbers of written records: all, and those without their payload

	wake  chan struct{} // holds a token when the queue is no longer empty
	hurry chan struct{} // holds a token when the writer must not wait for more
	done  chan struct{} // closed when the writer has ended

	mu      sync.Mutex // guards the fields below
	queue   []record
	waiting int           // bytes queued or being written
	full    time.Time     // since when the queue has been full; zero if it is not
	room    chan struct{} // closed when the queue has room again; nil while no call waits
	over    bool          // no further records are accepted
	reason  string        // why it ended, for the cassette
	err     error         // set if the recording ended by itself
}

// record is queued until it is masked and written.
type record struct {
	at      time.Duration
	run     int
	kind    cassette.Kind
	of      json.RawMessage
	payload json.RawMessage
	known   *redact.Known // secrets known when the frame passed
}

func newRecording(h *Hub, o Options) *Recording {
	o.maxWait = cmp.Or(o.maxWait, maxWait)
	return &Recording{
		hub:   h,
		o:     o,
		begun: time.Now(),
		wake:  make(chan struct{}, 1),
		hurry: make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
}

// Description describes a recording under way.
type Description struct {
	File       string // see [Options]
	Extensions []string
	Since      time.Time
	Records    int64 // written
	Waiting    int64 // bytes that wait to be masked and written
	Omitted    int64 // of Records: not JSON, so only their length was written
}

func (r *Recording) describe() Description {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Description{
		File:       r.o.File,
		Extensions: r.o.Extensions,
		Since:      r.begun,
		Records:    r.records.Load(),
		Waiting:    int64(r.waiting),
		Omitted:    r.omitted.Load(),
	}
}

// put queues a record. While the queue is full it blocks; after maxWait it ends the recording.
func (r *Recording) put(run int, kind cassette.Kind, of, payload json.RawMessage) {
	n := record{time.Since(r.begun), run, kind, of, payload, r.hub.secrets.Snapshot()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.waiting >= maxQueue && !r.over {
		if !r.waitForRoomLocked() {
			r.endLocked("the writer was too slow",
				fmt.Errorf("its queue was full for %v while calls waited", r.o.maxWait))
		}
	}
	r.queueLocked(n)
}

// tell queues a record without blocking, as its caller holds the hub's lock. It is only for starts and offers,
// which are small.
func (r *Recording) tell(run int, kind cassette.Kind, payload json.RawMessage) {
	n := record{time.Since(r.begun), run, kind, nil, payload, r.hub.secrets.Snapshot()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queueLocked(n)
}

func (r *Recording) queueLocked(n record) {
	if r.over {
		return
	}
	if len(r.queue) == 0 {
		signal(r.wake)
	}
	r.queue = append(r.queue, n)
	before := r.waiting
	r.waiting += len(n.payload) + overhead
	if before < urgent && r.waiting >= urgent {
		signal(r.hurry)
	}
	if r.full.IsZero() && r.waiting >= maxQueue {
		r.full = time.Now()
	}
}

// waitForRoomLocked releases the lock until the queue has room. It reports false once the queue has been full for
// maxWait. The time counts from when the queue filled up, so several slow recordings delay a call no longer than
// one.
func (r *Recording) waitForRoomLocked() bool {
	if r.room == nil {
		r.room = make(chan struct{})
	}
	room, full := r.room, r.full
	r.mu.Unlock()
	defer r.mu.Lock()
	signal(r.hurry)
	timeout := time.NewTimer(r.o.maxWait - time.Since(full))
	defer timeout.Stop()
	select {
	case <-room:
		return true
	case <-timeout.C:
		return false
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// endLocked stops accepting records. err is nil unless the recording ended by itself.
func (r *Recording) endLocked(reason string, err error) {
	if r.over {
		return
	}
	r.over, r.reason, r.err = true, reason, err
	if r.room != nil {
		close(r.room)
		r.room = nil
	}
	signal(r.wake)
	signal(r.hurry)
}

func (r *Recording) end(reason string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(reason, err)
}

func (r *Recording) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// End ends the recording, waits until everything is written, and returns the error if the recording had ended by
// itself. reason goes into the cassette. It is idempotent.
func (r *Recording) End(reason string) error {
	r.end(reason, nil)
	timeout := time.NewTimer(flushing)
	defer timeout.Stop()
	select {
	case <-r.done:
		return r.err
	case <-timeout.C:
		return fmt.Errorf("the cassette could not be written to its end within %v", flushing)
	}
}

// Wait waits until the recording ends. It ends the recording itself when ctx ends or after limit; 0 means no limit. It
// returns the error of End.
func (r *Recording) Wait(ctx context.Context, limit time.Duration) error {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return r.End("its time was over")
	case <-ctx.Done():
		return r.End("its reader ended it")
	case <-r.Done():
		return r.End("")
	}
}

// Done is closed when the recording has ended and everything is written.
func (r *Recording) Done() <-chan struct{} { return r.done }

// write masks and writes queued records until the recording ends.
func (r *Recording) write() {
	defer close(r.done)
	defer r.hub.remove(r)
	var batch []record
	var failed error
	if r.cassette, failed = cassette.NewWriter(r.o.To, r.hub.host, r.begun, r.o.MaxBytes); failed != nil {
		r.end(reasonOf(failed), failed)
	}
	for {
		r.await()
		r.mu.Lock()
		batch, r.queue = r.queue, batch[:0]
		over := r.over
		r.mu.Unlock()
		if failed == nil {
			failed = r.writeBatch(batch)
		}
		if failed != nil {
			r.end(reasonOf(failed), failed)
			over = true
		}
		clear(batch)
		if !over {
			continue
		}
		r.mu.Lock()
		rest := r.queue // queued since the last batch
		r.queue = nil
		r.mu.Unlock()
		r.close(rest, failed)
		return
	}
}

// close writes rest and the end of the cassette. failed is the error of an earlier write, or nil.
func (r *Recording) close(rest []record, failed error) {
	if failed == nil {
		failed = r.writeBatch(rest)
	}
	r.mu.Lock()
	reason, err := r.reason, r.err
	r.mu.Unlock()
	if failed != nil {
		reason, err = reasonOf(failed), cmp.Or(err, failed)
	}
	if failed == nil || errors.Is(failed, cassette.ErrFull) {
		if last := r.cassette.Close(time.Since(r.begun), reason); last != nil {
			err = last
		}
	}
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	if err != nil && r.o.Ended != nil {
		r.o.Ended(err)
	}
}

func reasonOf(err error) string {
	if errors.Is(err, cassette.ErrFull) {
		return err.Error()
	}
	return "it could not be written"
}

// await waits for the first record, then up to linger for more.
func (r *Recording) await() {
	<-r.wake
	more := time.NewTimer(linger)
	defer more.Stop()
	select {
	case <-more.C:
	case <-r.hurry:
	}
}

func (r *Recording) writeBatch(batch []record) error {
	now := r.hub.secrets.Snapshot()
	for i := range batch {
		n := &batch[i]
		if err := r.add(n, now); err != nil {
			return err
		}
		r.mu.Lock()
		r.waiting -= len(n.payload) + overhead
		if r.room != nil && r.waiting < maxQueue/2 {
			close(r.room)
			r.room = nil
		}
		if r.waiting < maxQueue/2 {
			r.full = time.Time{}
		}
		r.mu.Unlock()
	}
	return r.cassette.Flush()
}

// add writes a record, masking the secrets known when it passed and those known now.
func (r *Recording) add(n *record, now *redact.Known) error {
	known := []*redact.Known{n.known}
	if now == n.known {
		known = nil
	}
	entry := cassette.Record{At: n.at, Run: n.run, Kind: n.kind, Of: n.of, Payload: now.Recorded(n.payload, known...)}
	err := r.cassette.Add(&entry)
	if err != nil && !errors.Is(err, cassette.ErrFull) {
		if _, bad := cassette.Append(nil, &entry); bad != nil { // not JSON: it cannot be masked
			entry.Kind, entry.Payload = cassette.KindOmitted, json.RawMessage(fmt.Sprint(len(n.payload)))
			err = r.cassette.Add(&entry)
		}
	}
	if err != nil {
		return err
	}
	r.records.Add(1)
	if entry.Kind == cassette.KindOmitted {
		r.omitted.Add(1)
	}
	return nil
}
