package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/glob"
)

// Query selects records. The zero value selects the records of all exchanges.
type Query struct {
	Denied    bool      // only exchanges that a policy or hook denied
	Tool      string    // a glob of the registered name, as in policies; "" is any
	Caller    string    // a glob; "" is any
	Node      string    // a glob of the caller's cluster node, [governance.ThisHost] for this host; "" is any
	ID        string    // a decision id of this log, or of the caller's node for the same call; "" is any
	Extension string    // a glob of the id; "" is any
	Since     time.Time // only exchanges that began then or later
	Last      int       // only the latest Last of the existing records; 0: all
	Follow    bool      // continue with new records
	Notes     bool      // also records about the log itself, and intents
}

// Check returns an error that names the malformed glob, if any.
func (q *Query) Check() error {
	for _, pattern := range []string{q.Tool, q.Caller, q.Node, q.Extension} {
		if err := glob.Check(pattern); err != nil && pattern != "" {
			return err
		}
	}
	return nil
}

func (q *Query) wants(r *Record) bool {
	if r.Kind != KindExchange && r.Outcome == "" {
		return q.Notes
	}
	fits := func(pattern, name string) bool { return pattern == "" || glob.Match(pattern, name) }
	return (!q.Denied || r.Outcome == Denied && r.EndsCall()) && !r.Time.Before(q.Since) &&
		(q.ID == "" || q.ID == r.ID || q.ID == r.Origin) &&
		(q.Node == "" || (&governance.Exchange{Node: r.Node}).IsFrom([]string{q.Node})) &&
		fits(q.Tool, r.Tool) && fits(q.Caller, r.Caller) && fits(q.Extension, r.Extension)
}

// poll is the interval of looking for new records. Another process may be the writer, so
// there is no notification.
const poll = 200 * time.Millisecond

// Read yields the records of the log at path that q selects, the oldest first; with q.Follow it
// waits for further records until ctx ends. It reads the files and needs no [Log]. It also yields
// intents without an outcome: as [Lost] before the first record of the next host; at the end of the
// log as [Pending] if a process has the log open for writing, else as [Lost]. With q.Follow it
// omits those at the end, because their outcomes are still to come. An error, such as a line that
// is not a record, ends the iteration.
func Read(ctx context.Context, path string, q Query) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := &reader{ctx: ctx, path: path, q: q, yield: yield}
		if err := errors.Join(q.Check(), r.begin()); err != nil {
			yield(Record{}, err)
			return
		}
		defer func() { _ = r.f.Close() }() // read only: the error does not matter; r.f changes until then
		for {
			if err := r.drain(); err != nil {
				if !errors.Is(err, errStopped) {
					yield(Record{}, err)
				}
				return
			}
			if next, err := r.next(); err != nil || !next {
				if err != nil && !errors.Is(err, errStopped) {
					yield(Record{}, err)
				}
				return
			}
		}
	}
}

// errStopped is returned when the caller stops the iteration or ctx ends.
var errStopped = errors.New("stopped")

// reader is the state of one Read.
type reader struct {
	ctx   context.Context
	path  string
	q     Query
	yield func(Record, error) bool

	f        *os.File
	lines    *bufio.Reader
	partial  []byte // the beginning of a line that is being written
	calls    unanswered
	tail     []Record // the latest q.Last records until caughtUp
	caughtUp bool     // the end of the newest file has been reached once
}

func (r *reader) begin() error {
	files, err := Files(r.path)
	if err != nil {
		return err
	}
	return r.open(files[0])
}

func (r *reader) open(name string) error {
	f, _, err := file.OpenRegular(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if r.f != nil {
		_ = r.f.Close() // was only read
	}
	r.f, r.lines, r.partial = f, bufio.NewReader(f), nil
	return nil
}

// drain emits the records up to the present end of the file.
func (r *reader) drain() error {
	for {
		if r.ctx.Err() != nil {
			return errStopped
		}
		part, err := r.lines.ReadSlice('\n')
		r.partial = append(r.partial, part...)
		switch {
		case err == io.EOF:
			return nil
		case len(r.partial) > maxLine:
			return fmt.Errorf("%s holds a line far too long for a record", r.f.Name())
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return err
		}
		var record Record
		if err := json.Unmarshal(r.partial, &record); err != nil {
			return fmt.Errorf("%s holds a line that is no record: %w", r.f.Name(), err)
		}
		r.partial = r.partial[:0]
		if err := r.take(record); err != nil {
			return err
		}
	}
}

// take emits the record, and remembers an intent until its outcome is read.
func (r *reader) take(record Record) error {
	if record.Opened {
		if err := r.emitAll(r.calls.lost(record.Time)); err != nil {
			return err
		}
	}
	r.calls.note(record.Time, record.Duration)
	switch {
	case record.Kind == KindIntent:
		r.calls.add(record)
	case record.EndsCall():
		r.calls.ended(record.ID)
	}
	return r.emit(record)
}

func (r *reader) emitAll(records []Record) error {
	for _, record := range records {
		if err := r.emit(record); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) emit(record Record) error {
	if !r.q.wants(&record) {
		return nil
	}
	if r.q.Last > 0 && !r.caughtUp {
		if len(r.tail) == r.q.Last {
			r.tail = append(r.tail[:0], r.tail[1:]...)
		}
		r.tail = append(r.tail, record)
		return nil
	}
	if !r.yield(record, nil) {
		return errStopped
	}
	return nil
}

// next opens the file after the one that was drained, or waits for more records. It returns
// false when the iteration is complete.
func (r *reader) next() (bool, error) {
	after, err := r.successor()
	if err != nil {
		return false, err
	}
	if after != "" {
		if err := r.drain(); err != nil { // lines written just before the rotation
			return false, err
		}
		return true, r.open(after)
	}
	if !r.q.Follow {
		if err := r.emitAll(r.calls.rest(r.path)); err != nil {
			return false, err
		}
	}
	if err := r.emitTail(); err != nil || !r.q.Follow {
		return false, err
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-r.ctx.Done():
		return false, nil
	}
}

// emitTail emits the records collected for q.Last.
func (r *reader) emitTail() error {
	r.caughtUp = true
	for _, record := range r.tail {
		if !r.yield(record, nil) {
			return errStopped
		}
	}
	r.tail = nil
	return nil
}

// successor returns the name of the file after the open one, "" when the open one is the
// newest.
func (r *reader) successor() (string, error) {
	own, err := r.f.Stat()
	if err != nil {
		return "", err
	}
	newer := ""
	for n := 0; ; n++ {
		name := r.path
		if n > 0 {
			name = rotated(r.path, n)
		}
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && n == 0:
			continue // a rotation is in progress
		case errors.Is(err, fs.ErrNotExist):
			return newer, nil // the open file was removed: continue with the oldest one left
		case err != nil:
			return "", err
		case os.SameFile(info, own):
			return newer, nil
		}
		newer = name
	}
}
