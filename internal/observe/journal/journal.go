// Package journal keeps the latest log records, separately for each source, so that no source displaces the records of
// another. It delivers new records to followers.
package journal

import (
	"cmp"
	"container/list"
	"context"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/status"
)

// follower reads the records that are added.
type follower = concurrent.BroadcastReader[status.LogRecord]

// entry is a kept record with its place among those of all sources.
type entry struct {
	status.LogRecord
	seq uint64
}

const (
	keptLevel = slog.LevelInfo // lowest level that is kept; lower ones only reach followers
	maxKept   = 256            // records per source
	maxBytes  = 256 << 10      // bytes of text per source
	maxText   = 16 << 10       // bytes of one message, and of its attributes
	maxTotal  = 16 << 20       // bytes of all sources together, including overhead
	overhead  = 192            // bytes per record
)

// Journal keeps records and serves followers. Use [New].
type Journal struct {
	level atomic.Int64 // lowest level in use: keptLevel, or a lower one of a follower

	mu      sync.Mutex // guards the fields below; held while a follower joins and reads the kept records
	seq     uint64
	sources map[string]*source // by extension
	order   list.List          // sources of extensions, least recently used first; without the host's
	total   int                // size of all sources
	records concurrent.Broadcast[status.LogRecord]
	levels  map[slog.Level]int // number of followers by level
	closed  bool
}

// New returns an empty journal.
func New() *Journal {
	j := &Journal{sources: make(map[string]*source), levels: make(map[slog.Level]int)}
	j.level.Store(int64(keptLevel))
	return j
}

// source holds the latest records of one source, oldest first.
type source struct {
	extension string
	records   []entry
	bytes     int
	place     *list.Element // in Journal.order; nil for the host
}

// size returns how much the records count against maxTotal.
func (s *source) size() int { return s.bytes + len(s.records)*overhead }

func (s *source) add(r entry) {
	s.records = append(s.records, r)
	s.bytes += size(&r.LogRecord)
	drop := 0
	for len(s.records)-drop > maxKept || s.bytes > maxBytes {
		s.bytes -= size(&s.records[drop].LogRecord)
		drop++
	}
	s.records = slices.Delete(s.records, 0, drop)
}

// size returns the bytes of text of a record.
func size(r *status.LogRecord) int { return len(r.Message) + len(r.Attrs) }

// add keeps the record and queues it for the followers, without waiting for them.
func (j *Journal) add(r status.LogRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.seq++
	if r.Level >= keptLevel {
		j.keepLocked(entry{r, j.seq})
	}
	j.records.Publish(r, size(&r))
}

// keepLocked keeps a record. If there are too many in total, it drops the extensions that have been quiet for longest,
// which usually no longer exist.
func (j *Journal) keepLocked(r entry) {
	s := j.sources[r.Extension]
	if s == nil {
		s = &source{extension: r.Extension}
		j.sources[r.Extension] = s
		if r.Extension != "" { // the host's records are never dropped
			s.place = j.order.PushBack(s)
		}
	}
	if s.place != nil {
		j.order.MoveToBack(s.place)
	}
	j.total -= s.size()
	s.add(r)
	j.total += s.size()
	for j.total > maxTotal {
		quiet := j.order.Remove(j.order.Front()).(*source)
		delete(j.sources, quiet.extension)
		j.total -= quiet.size()
	}
}

// Records yields the kept records that match f, in order, and with f.Follow also new ones until ctx ends or the journal
// is closed. No record in between is missed.
func (j *Journal) Records(ctx context.Context, f status.LogFilter) iter.Seq[status.LogRecord] {
	return func(yield func(status.LogRecord) bool) {
		kept, from := j.read(&f)
		if from != nil {
			defer j.leave(from, f.Level)
		}
		for _, r := range kept {
			if ctx.Err() != nil || !yield(r) {
				return
			}
		}
		if from == nil {
			return
		}
		for r, lost := range from.All(ctx) {
			if r.Lost = lost; !yield(r) {
				return
			}
		}
	}
}

// read returns the kept records and, with f.Follow, a reader of the following ones.
func (j *Journal) read(f *status.LogFilter) (kept []status.LogRecord, from *follower) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.Follow {
		from = j.records.Join(f.Selects)
		j.levels[f.Level]++
		j.updateLevelLocked()
	}
	return j.keptLocked(f), from
}

func (j *Journal) leave(f *follower, level slog.Level) {
	f.Leave()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.levels[level]--; j.levels[level] == 0 {
		delete(j.levels, level)
	}
	j.updateLevelLocked()
}

func (j *Journal) keptLocked(f *status.LogFilter) (kept []status.LogRecord) {
	if f.Last < 0 {
		return nil
	}
	var selected []entry
	for _, s := range j.sources {
		for i := range s.records {
			if r := &s.records[i]; f.Selects(&r.LogRecord) {
				selected = append(selected, *r)
			}
		}
	}
	slices.SortFunc(selected, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	if f.Last > 0 {
		selected = selected[max(0, len(selected)-f.Last):]
	}
	for i := range selected {
		kept = append(kept, selected[i].LogRecord)
	}
	return kept
}

func (j *Journal) updateLevelLocked() {
	if j.closed {
		return
	}
	level := keptLevel
	for l := range j.levels {
		level = min(level, l)
	}
	j.level.Store(int64(level))
}

// Close ends all followers after their queued records. Kept records can still be read; new ones are dropped. It is
// idempotent.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.level.Store(math.MaxInt64)
	j.records.Close()
}
