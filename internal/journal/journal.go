// Package journal keeps the latest records of a log, apart for each of its
// sources so that none can push out another's, and hands the new ones on to those
// who follow.
package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/broadcast"
)

// Record is one record of the log.
type Record struct {
	Time      time.Time       `json:"time"`
	Level     slog.Level      `json:"level"`
	Extension string          `json:"extension,omitempty"` // whom it is about; "": the host
	Message   string          `json:"msg"`
	Attrs     json.RawMessage `json:"attrs,omitempty"` // an object; empty when there are none
	Lost      int             `json:"lost,omitempty"`  // records that this follower was too slow for, just before this one

	seq uint64
}

const (
	keptLevel = slog.LevelInfo // and above is kept; the rest is for those who follow
	maxKept   = 256            // records of one source
	maxBytes  = 256 << 10      // of the texts of one source's records
	maxText   = 16 << 10       // bytes of one message, and of its attributes
)

// Journal is what is kept and who follows. Its zero value is not usable, see [New].
type Journal struct {
	level atomic.Int64 // the lowest that anybody wants: [keptLevel], or a follower's

	mu      sync.Mutex // guards what follows, and that nothing is published between what is kept and what is followed
	seq     uint64
	sources map[string]*source // by extension
	records broadcast.Hub[Record]
	levels  map[slog.Level]int // of followers
	closed  bool
}

// New returns an empty journal.
func New() *Journal {
	j := &Journal{sources: make(map[string]*source), levels: make(map[slog.Level]int)}
	j.level.Store(int64(keptLevel))
	return j
}

// source is the last records of one source, the oldest first.
type source struct {
	records []Record
	bytes   int
}

func (s *source) add(r Record) {
	s.records = append(s.records, r)
	s.bytes += r.size()
	drop := 0
	for len(s.records)-drop > maxKept || s.bytes > maxBytes {
		s.bytes -= s.records[drop].size()
		drop++
	}
	s.records = slices.Delete(s.records, 0, drop)
}

func (r *Record) size() int { return len(r.Message) + len(r.Attrs) }

// Filter says which records are wanted.
type Filter struct {
	Extension string     // only what is about this one; "": everything
	Level     slog.Level // and above; the zero value is info. Records below info are not kept, only followed
	Last      int        // at most so many of the kept records; 0: all, negative: none
	Follow    bool       // go on with new records
}

func (f *Filter) wants(r *Record) bool {
	return r.Level >= f.Level && (f.Extension == "" || r.Extension == f.Extension)
}

// add keeps the record and gives it to the followers. It does not wait for them.
func (j *Journal) add(r Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.seq++
	r.seq = j.seq
	if r.Level >= keptLevel {
		s := j.sources[r.Extension]
		if s == nil {
			s = new(source)
			j.sources[r.Extension] = s
		}
		s.add(r)
	}
	j.records.Publish(r, r.size())
}

// Records yields the kept records that f wants, in order, and with f.Follow new
// ones until ctx ends or the journal is closed. Between the two none is missed.
func (j *Journal) Records(ctx context.Context, f Filter) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		kept, follower := j.read(&f)
		if follower != nil {
			defer j.leave(follower, f.Level)
		}
		for _, r := range kept {
			if ctx.Err() != nil || !yield(r) {
				return
			}
		}
		if follower == nil {
			return
		}
		for r, lost := range follower.All(ctx) {
			if r.Lost = lost; !yield(r) {
				return
			}
		}
	}
}

// read returns what is kept and, if f follows, the reader of what comes next.
func (j *Journal) read(f *Filter) (kept []Record, follower *broadcast.Reader[Record]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.Follow {
		follower = j.records.Join(f.wants)
		j.levels[f.Level]++
		j.lowerLocked()
	}
	return j.keptLocked(f), follower
}

func (j *Journal) leave(follower *broadcast.Reader[Record], level slog.Level) {
	follower.Leave()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.levels[level]--; j.levels[level] == 0 {
		delete(j.levels, level)
	}
	j.lowerLocked()
}

func (j *Journal) keptLocked(f *Filter) (kept []Record) {
	if f.Last < 0 {
		return nil
	}
	for _, s := range j.sources {
		for i := range s.records {
			if r := &s.records[i]; f.wants(r) {
				kept = append(kept, *r)
			}
		}
	}
	slices.SortFunc(kept, func(a, b Record) int { return cmp.Compare(a.seq, b.seq) })
	if f.Last > 0 && len(kept) > f.Last {
		kept = kept[len(kept)-f.Last:]
	}
	return kept
}

// lowerLocked finds the lowest level that anybody wants.
func (j *Journal) lowerLocked() {
	if j.closed {
		return
	}
	level := keptLevel
	for l := range j.levels {
		level = min(level, l)
	}
	j.level.Store(int64(level))
}

// Close ends those who follow, once they have read what was pending. What is kept
// can still be read; nothing is added any more. It is idempotent.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.level.Store(math.MaxInt64)
	j.records.Close()
}
