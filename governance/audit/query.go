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

	"github.com/exthost/exthost/internal/glob"
)

// Query says which records are wanted. The zero value is all of exchanges.
type Query struct {
	Denied    bool      // only those that a policy or hook ended
	Tool      string    // a glob of the registered name
	Caller    string    // a glob
	Extension string    // a glob of the id
	Since     time.Time // only exchanges that began then or later
	Last      int       // of those that are there only so many; 0: all
	Follow    bool      // go on with what comes
	Notes     bool      // also the log's own records, which are about no exchange
}

// Check says which glob is malformed.
func (q *Query) Check() error {
	for _, pattern := range []string{q.Tool, q.Caller, q.Extension} {
		if err := glob.Check(pattern); err != nil && pattern != "" {
			return err
		}
	}
	return nil
}

func (q *Query) wants(r *Record) bool {
	if r.Kind != KindExchange {
		return q.Notes
	}
	fits := func(pattern, name string) bool { return pattern == "" || glob.MatchPath(pattern, name) }
	return (!q.Denied || r.Outcome == Denied) && !r.Time.Before(q.Since) &&
		fits(q.Tool, r.Tool) && fits(q.Caller, r.Caller) && fits(q.Extension, r.Extension)
}

// poll is how often a log that is followed is looked at: who writes it may be
// another process.
const poll = 200 * time.Millisecond

// Read yields the records of the log at path that q wants, the oldest first, with
// q.Follow until ctx ends. It reads the files, so it needs no [Log]. An error is
// the last thing it yields; a line that is no record is one.
func Read(ctx context.Context, path string, q Query) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := &reader{ctx: ctx, path: path, q: q, yield: yield}
		if err := errors.Join(q.Check(), r.begin()); err != nil {
			yield(Record{}, err)
			return
		}
		defer func() { _ = r.f.Close() }() // was only read; the file changes on the way
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

// errStopped says that whoever ranges has had enough, or ctx has ended.
var errStopped = errors.New("stopped")

// reader is one use of Read.
type reader struct {
	ctx   context.Context
	path  string
	q     Query
	yield func(Record, error) bool

	f       *os.File
	lines   *bufio.Reader
	partial []byte   // the beginning of a line that is being written
	held    []Record // the last ones, while q.Last holds
	caught  bool     // all that was there at first has been read
}

func (r *reader) begin() error {
	files, err := Files(r.path)
	if err != nil {
		return err
	}
	return r.open(files[0])
}

func (r *reader) open(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	if r.f != nil {
		_ = r.f.Close() // was only read
	}
	r.f, r.lines, r.partial = f, bufio.NewReader(f), nil
	return nil
}

// drain gives out what is in the file up to its present end.
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
		if err := r.give(record); err != nil {
			return err
		}
	}
}

func (r *reader) give(record Record) error {
	if !r.q.wants(&record) {
		return nil
	}
	if r.q.Last > 0 && !r.caught {
		if len(r.held) == r.q.Last {
			r.held = append(r.held[:0], r.held[1:]...)
		}
		r.held = append(r.held, record)
		return nil
	}
	if !r.yield(record, nil) {
		return errStopped
	}
	return nil
}

// next opens the file that follows the one which was drained, or waits for more;
// false says that there is none.
func (r *reader) next() (bool, error) {
	after, err := r.successor()
	if err != nil {
		return false, err
	}
	if after != "" {
		if err := r.drain(); err != nil { // what came before it was put aside
			return false, err
		}
		return true, r.open(after)
	}
	if err := r.catchUp(); err != nil || !r.q.Follow {
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

// catchUp gives out what was held back.
func (r *reader) catchUp() error {
	r.caught = true
	for _, record := range r.held {
		if !r.yield(record, nil) {
			return errStopped
		}
	}
	r.held = nil
	return nil
}

// successor returns the name of the file after the one that is open, "" while that
// is the newest.
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
			continue // between two files
		case errors.Is(err, fs.ErrNotExist):
			return newer, nil // what was open is gone: go on with the oldest that is left
		case err != nil:
			return "", err
		case os.SameFile(info, own):
			return newer, nil
		}
		newer = name
	}
}
