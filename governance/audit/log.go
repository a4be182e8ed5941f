package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/redact"
)

// DefaultMaxSize is the value of Options.MaxSize when it is 0.
const DefaultMaxSize = 64 << 20

// Options configure a [Log].
type Options struct {
	// Path is the file; its directory is created when missing. Rotated files have the
	// suffixes .1 (the newest), .2 and so on.
	Path string
	// MaxSize is the size at which a file is rotated, in bytes, at least 64 KiB. Default:
	// DefaultMaxSize.
	MaxSize int64
	// Keep is the number of rotated files to keep. Default: none.
	Keep int
	// Anchor is the interval at which the hash of the last record is written to Log, if there is a
	// new record. Close writes it too. Default: DefaultAnchor. Negative: only Close writes it.
	Anchor time.Duration
	// Secrets masks the host's secrets, in addition to those recognized by their form. Default:
	// no secrets.
	Secrets *redact.Redactor
	// Log receives the anchors, and a message when writing fails and when it works again.
	// Default: discarded.
	Log *slog.Logger
}

// DefaultAnchor is the value of Options.Anchor when it is 0.
const DefaultAnchor = time.Minute

const (
	minMaxSize = 64 << 10
	maxPending = 4 << 20         // bytes of pending records
	usualBatch = 256 << 10       // initial capacity, in bytes, of the buffer of pending records
	retry      = 1 * time.Second // wait after a failed write, unless a request comes
)

// ErrClosed is the error of Append after Close.
var ErrClosed = errors.New("the audit log is closed")

// Log is an audit log open for writing. It is a [governance.Policy] of category audit. Its
// methods are safe for concurrent use.
type Log struct {
	log     *slog.Logger
	secrets *redact.Redactor // see Options.Secrets
	wake    chan struct{}    // holds a token when the writer has work
	again   chan struct{}    // holds a token when a request waits for the next attempt to write
	ended   chan struct{}    // closed when the writer has ended

	mu      sync.Mutex // guards the fields below
	pending []byte     // records that are not written, one per line
	opened  bool       // this host's first record, with Record.Opened, has been added
	sent    intents    // the requests of calls in flight
	lost    int        // number of records dropped because pending was full
	err     error      // of the last write; nil when it worked
	closing bool
	space   chan struct{} // closed and replaced when pending is emptied and after each attempt to write
}

var _ governance.Policy = (*Log)(nil)

// Open opens or creates the log at o.Path and locks it. If another process has locked it, the error
// names that process. Open removes a torn last line and records the removal; any other damage of
// the last line is an error.
func Open(o Options) (*Log, error) {
	if o.MaxSize <= 0 {
		o.MaxSize = DefaultMaxSize
	}
	o.MaxSize = max(o.MaxSize, minMaxSize)
	o.Anchor = cmp.Or(o.Anchor, DefaultAnchor)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	f, torn, err := openFile(o)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{
		log:     o.Log,
		secrets: o.Secrets,
		wake:    make(chan struct{}, 1),
		again:   make(chan struct{}, 1),
		ended:   make(chan struct{}),
		space:   make(chan struct{}),
		pending: make([]byte, 0, usualBatch),
	}
	if torn != nil {
		o.Log.Warn("the audit log ended within a line, which was cut off", "path", o.Path, "bytes", len(torn))
		l.appendOwnLocked(Record{Kind: KindRecovered, Torn: display.Prefix(string(torn), maxCopy)})
		l.wakeWriter()
	}
	go l.write(f, &anchor{log: o.Log, path: o.Path, every: o.Anchor, last: f.last})
	return l, nil
}

// Append passes r to the writer. It blocks only while the buffer of pending records is full, and
// until ctx ends at most. While writing fails, Append returns the error of the write. It still
// keeps r to be written later if the buffer has space; else r counts as lost.
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
			l.appendLocked(line)
			err := l.err
			l.mu.Unlock()
			l.wakeWriter()
			return err
		case l.err != nil || ctx.Err() != nil:
			l.lost++
			err := l.err
			l.mu.Unlock()
			return errors.Join(err, ctx.Err())
		}
		space := l.space
		l.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
}

// lines are buffers for encoding records before the log is locked.
var lines = sync.Pool{New: func() any { return new([]byte) }}

func (l *Log) appendLocked(line []byte) {
	if !l.opened {
		l.opened = true
		l.pending = append(append(l.pending, line[:len(line)-1]...), `,"opened":true}`+"\n"...)
		return
	}
	l.pending = append(append(l.pending, line...), '\n')
}

// appendOwnLocked adds a record about the log itself.
func (l *Log) appendOwnLocked(r Record) {
	r.Time = time.Now().UTC()
	l.appendLocked(r.append(nil))
}

func (l *Log) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Err returns the error of the last write, nil when it worked.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// tryAgain returns nil if the last write worked. Otherwise it makes the writer retry at once and
// returns the result; if the disk hangs, it returns the earlier error.
func (l *Log) tryAgain(ctx context.Context) error {
	l.mu.Lock()
	err, attempt := l.err, l.space
	l.mu.Unlock()
	if err == nil {
		return nil
	}
	select {
	case l.again <- struct{}{}:
	default:
	}
	hangs := time.NewTimer(retry)
	defer hangs.Stop()
	select {
	case <-attempt:
	case <-l.ended:
	case <-hangs.C:
	case <-ctx.Done():
	}
	return l.Err()
}

// Decide implements [governance.Policy]. It denies requests while writing fails. It records a
// request before it is sent, and an exchange when it has ended.
func (l *Log) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Request && !x.Notify {
		return governance.Decision{}, l.intend(ctx, x)
	}
	r, err := l.newRecord(ctx, x, l.takeIntent(x.ID))
	if err != nil {
		return governance.Decision{}, err
	}
	return governance.Decision{}, l.Append(ctx, r)
}

// write is the writer goroutine. It ends when the log is closed.
func (l *Log) write(f *logFile, a *anchor) {
	defer close(l.ended)
	batch := make([]byte, 0, usualBatch)
	for {
		select {
		case <-l.wake:
		case <-a.due:
			a.drop(f.last)
			continue
		}
		var closing bool
		batch, closing = l.takePending(batch)
		for rest := batch; len(rest) > 0; {
			var err error
			rest, err = f.append(rest)
			l.setErr(err)
			if err != nil && (closing || l.waitRetry()) {
				closing = true
				break
			}
		}
		if closing {
			a.drop(f.last)
			l.setErr(errors.Join(l.Err(), f.close()))
			return
		}
		a.arm(f.last)
	}
}

// takePending returns the pending records and, if records were lost, one with their number. Later
// records are collected in done, a buffer that was written before.
func (l *Log) takePending(done []byte) (batch []byte, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		l.appendOwnLocked(Record{Kind: KindLost, Lost: l.lost})
		l.lost = 0
	}
	batch, l.pending = l.pending, done[:0]
	l.signalSpaceLocked()
	return batch, l.closing
}

func (l *Log) signalSpaceLocked() {
	close(l.space)
	l.space = make(chan struct{})
}

// setErr stores the result of a write, and logs when writing begins to fail and when it works
// again.
func (l *Log) setErr(err error) {
	l.mu.Lock()
	before := l.err
	l.err = err
	l.signalSpaceLocked() // waiting callers of Append return err
	l.mu.Unlock()
	switch {
	case err != nil && before == nil:
		l.log.Error("the audit log cannot be written", "error", err)
	case err == nil && before != nil:
		l.log.Info("the audit log can be written again")
	}
}

// waitRetry waits before the next attempt and reports whether the log is being closed.
func (l *Log) waitRetry() (closing bool) {
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
			l.wakeWriter() // the loop has taken the token of new records
			return false
		case <-l.again:
			l.wakeWriter()
			return false
		case <-l.wake:
		}
	}
}

// Close writes the pending records and closes the log. It returns the error of the last
// write, or that of ctx when ctx ends first; writing then continues in the background. It
// is idempotent.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.signalSpaceLocked()
	l.mu.Unlock()
	l.wakeWriter()
	select {
	case <-l.ended:
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
