package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
)

// DefaultMaxSize is Options.MaxSize when that is 0.
const DefaultMaxSize = 64 << 20

// Options is what a log needs to know.
type Options struct {
	// Path is the file; its directory is made when it is not there. Rotated files
	// get .1 (the newest), .2 and so on after it.
	Path string
	// MaxSize is how many bytes a file may have before it is rotated, at least
	// 64 KiB. Default: DefaultMaxSize.
	MaxSize int64
	// Keep is how many rotated files are kept.
	Keep int
	// Log is told when records cannot be written, and when they can again. Default:
	// nobody.
	Log *slog.Logger
}

const (
	minMaxSize = 64 << 10
	maxPending = 4 << 20         // bytes of records that wait to be written
	usualBatch = 256 << 10       // bytes of records that come in while others are written
	retry      = 1 * time.Second // after a write that failed
)

// ErrClosed is the error of Append after Close.
var ErrClosed = errors.New("the audit log is closed")

// Log is an audit log that is being written. It is a [governance.Policy] of
// category audit. Its methods may be called by many goroutines at once.
type Log struct {
	log   *slog.Logger
	wake  chan struct{} // holds a token when the writer has something to look at
	ended chan struct{} // closed when the writer has ended

	mu      sync.Mutex // guards what follows
	pending []byte     // records, a line each, that are not yet written
	lost    int        // records that there was no room for
	err     error      // why nothing can be written; nil when it can
	closing bool
	room    chan struct{} // closed and made anew when pending is taken or err set
}

var _ governance.Policy = (*Log)(nil)

// Open opens the log at o.Path, or begins it. It takes the file for this process:
// a second one gets an error that names the first. A torn last line is cut off and
// noted in a record; any other damage at the end of the log is an error.
func Open(o Options) (*Log, error) {
	if o.MaxSize <= 0 {
		o.MaxSize = DefaultMaxSize
	}
	o.MaxSize = max(o.MaxSize, minMaxSize)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f, torn, err := openFile(o)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{log: o.Log, wake: make(chan struct{}, 1), ended: make(chan struct{}), room: make(chan struct{}), pending: make([]byte, 0, usualBatch)}
	if torn != nil {
		o.Log.Warn("the audit log ended within a line, which was cut off", "path", o.Path, "bytes", len(torn))
		l.noteLocked(Record{Kind: KindRecovered, Torn: cut(string(torn), maxCopy)})
		l.stir()
	}
	go l.write(f)
	return l, nil
}

// Append hands r to the writer. It waits only while too much is waiting, until ctx
// ends. While nothing can be written it returns why; the record is then written
// later if there is room for it, else counted as lost.
func (l *Log) Append(ctx context.Context, r Record) error {
	buf := lines.Get().(*[]byte)
	defer lines.Put(buf)
	*buf = r.append((*buf)[:0])
	line := *buf
	l.mu.Lock()
	for {
		switch {
		case l.closing:
			l.mu.Unlock()
			return ErrClosed
		case len(l.pending)+len(line) < maxPending:
			l.putLocked(line)
			err := l.err
			l.mu.Unlock()
			l.stir()
			return err
		case l.err != nil || ctx.Err() != nil:
			l.lost++
			err := l.err
			l.mu.Unlock()
			return errors.Join(err, ctx.Err())
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
}

// lines are buffers in which records are written down before the log is locked.
var lines = sync.Pool{New: func() any { return new([]byte) }}

func (l *Log) putLocked(line []byte) {
	l.pending = append(append(l.pending, line...), '\n')
}

// noteLocked puts a record of the log's own.
func (l *Log) noteLocked(r Record) {
	r.Time = time.Now().UTC()
	l.putLocked(r.append(nil))
}

func (l *Log) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Err says why nothing can be written at present; nil when it can.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Decide implements [governance.Policy]: it refuses requests while nothing can be
// written, and records how exchanges ended.
func (l *Log) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Request && !x.Notify {
		return governance.Decision{}, l.Err()
	}
	r, err := newRecord(ctx, x, time.Now())
	if err != nil {
		return governance.Decision{}, err
	}
	return governance.Decision{}, l.Append(ctx, r)
}

// write is the goroutine that writes what is pending until the log is closed.
func (l *Log) write(f *file) {
	defer close(l.ended)
	batch := make([]byte, 0, usualBatch)
	for {
		<-l.wake
		var closing bool
		batch, closing = l.take(batch)
		for rest := batch; len(rest) > 0; {
			var err error
			rest, err = f.append(rest)
			l.health(err)
			if err != nil && (closing || l.rest()) {
				closing = true
				break
			}
		}
		if closing {
			l.health(errors.Join(l.Err(), f.close()))
			return
		}
	}
}

// take returns what is pending, with a record of what was lost, if anything was,
// and leaves the space of done for what comes.
func (l *Log) take(done []byte) (batch []byte, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		l.noteLocked(Record{Kind: KindLost, Lost: l.lost})
		l.lost = 0
	}
	batch, l.pending = l.pending, done[:0]
	l.makeRoomLocked()
	return batch, l.closing
}

func (l *Log) makeRoomLocked() {
	close(l.room)
	l.room = make(chan struct{})
}

// health notes how a write went, and says so when that has changed.
func (l *Log) health(err error) {
	l.mu.Lock()
	before := l.err
	l.err = err
	if err != nil {
		l.makeRoomLocked() // who waits for room learns why there is none
	}
	l.mu.Unlock()
	switch {
	case err != nil && before == nil:
		l.log.Error("the audit log cannot be written", "error", err)
	case err == nil && before != nil:
		l.log.Info("the audit log can be written again")
	}
}

// rest waits before the next attempt and reports whether the log is being closed.
func (l *Log) rest() (closing bool) {
	timer := time.NewTimer(retry)
	defer timer.Stop()
	for {
		l.mu.Lock()
		closing = l.closing
		l.mu.Unlock()
		if closing {
			return true
		}
		select {
		case <-timer.C:
			l.stir() // what came in meanwhile took the token
			return false
		case <-l.wake:
		}
	}
}

// Close writes what is pending and ends the log. It returns why something could
// not be written, or the error of ctx when that ends first; the rest is then done
// in the background. It is idempotent.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.makeRoomLocked()
	l.mu.Unlock()
	l.stir()
	select {
	case <-l.ended:
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
