package recorder

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/redact"
)

// stuck accepts the header. It blocks the next write until it is released, and then fails the write.
type stuck struct {
	bytes.Buffer
	writes   int
	entered  chan struct{} // closed when the write blocks
	released chan struct{}
}

func newStuck() *stuck { return &stuck{entered: make(chan struct{}), released: make(chan struct{})} }

func (s *stuck) Write(b []byte) (int, error) {
	if s.writes++; s.writes == 2 {
		close(s.entered)
		<-s.released
		return 0, errDisk
	}
	return s.Buffer.Write(b)
}

// TestAFailureAtTheEndIsTold lets a write fail after the recording was told to end.
func TestAFailureAtTheEndIsTold(t *testing.T) {
	h, to := New("1.0", new(redact.Redactor)), newStuck()
	r, err := h.Record(Options{To: to})
	if err != nil {
		t.Fatal(err)
	}
	w := h.Wire("a")
	w.Start(cassette.Start{})
	w.Frame(true, nil, frame("lost"))
	<-to.entered
	w.Frame(true, nil, frame("later"))
	r.end("enough", nil)
	close(to.released)
	if err := r.End(""); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	if text := to.String(); strings.Count(text, "\n") != 1 {
		t.Errorf("after what was lost, the cassette goes on: %s", text)
	}
}

// fill records frames until the queue is full.
func fill(w *Wire) {
	big := frame(strings.Repeat("x", 1<<20))
	for range maxQueue >> 20 {
		w.Frame(true, nil, big)
	}
}

// TestAFullQueueHoldsNoStart checks that runs can start and offer while calls block on a full queue.
func TestAFullQueueHoldsNoStart(t *testing.T) {
	h, to := New("1.0", new(redact.Redactor)), newStuck()
	r, err := h.Record(Options{To: to, maxWait: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := h.Wire("a")
	w.Start(cassette.Start{})
	<-to.entered
	fill(w)
	other := h.Wire("b")
	other.Start(cassette.Start{})
	other.Offer(func() *cassette.Offer { return new(cassette.Offer) })
	if r.hasEnded() {
		t.Error("a run that begins waited for the writer")
	}
	close(to.released)
	if err := r.End(""); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

// TestStuckRecordingsHoldACallOnce checks that a call blocks no longer for many stuck recordings than for one.
func TestStuckRecordingsHoldACallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New("1.0", new(redact.Redactor))
		var all []*Recording
		var writers []*stuck
		for range maxRecordings {
			to := newStuck()
			r, err := h.Record(Options{To: to})
			if err != nil {
				t.Fatal(err)
			}
			all, writers = append(all, r), append(writers, to)
		}
		w := h.Wire("a")
		w.Start(cassette.Start{})
		for _, to := range writers {
			<-to.entered
		}
		began := time.Now()
		fill(w)
		fill(w)
		if took := time.Since(began); took > maxWait {
			t.Errorf("calls waited %v", took)
		}
		for i, r := range all {
			close(writers[i].released)
			if err := r.End(""); err == nil {
				t.Error("a recording that was too slow says nothing")
			}
		}
	})
}
