package process

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// A flood is read at bounded cost, and dropped lines are counted.
func TestStderrFlood(t *testing.T) {
	processtest.Leaks(t)
	const lines = 2_000_000 // of 100 bytes
	var delivered, dropped int
	c := start(t, `read; flood 2000000 `+strings.Repeat("x", 99)+`\n; err bye; eof; exit 4`, func(s *Spec) {
		s.StderrLine = func(l Line) {
			delivered++
			dropped += l.Dropped
			if l.Truncated {
				t.Errorf("truncated: %q", l.Text)
			}
		}
	})
	before := heap()
	fmt.Fprintln(c.Stdin)
	if err := c.Stop(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	if exit := c.ended(); exit.Code != 4 {
		t.Fatalf("exit: %v: the flood was not drained", exit)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	// The last report of dropped lines is a delivered line too.
	if got := delivered + dropped; got != lines+2 && got != lines+1 {
		t.Errorf("%d lines delivered, %d dropped: %d in all of %d", delivered, dropped, got, lines+1)
	}
	if tail := c.Tail(); len(tail) != tailLines || tail[tailLines-1] != "bye" {
		t.Errorf("tail: %q", tail)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A blocked consumer loses lines but does not block the child.
func TestBlockedConsumer(t *testing.T) {
	processtest.Leaks(t)
	release := make(chan struct{})
	c := start(t, `flood 100000 a line of some length\n; exit 4`, func(s *Spec) {
		s.StderrLine = func(Line) { <-release }
	})
	if exit := c.ended(); exit.Code != 4 {
		t.Errorf("exit: %v", exit)
	}
	close(release)
}

func TestLongLine(t *testing.T) {
	processtest.Leaks(t)
	var got []Line
	c := start(t, `flood 100000000 x; raw \nshort`, func(s *Spec) {
		s.StderrLine = func(l Line) { got = append(got, l) }
		s.Stderr.MaxLine = 100
	})
	c.ended()
	want := []Line{
		{Level: slog.LevelWarn, Text: "…", Truncated: true},
		{Level: slog.LevelWarn, Text: "short"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// The lines do not depend on how the stream is split into reads.
func TestLinesDoNotDependOnReads(t *testing.T) {
	const stream = "one\r\n\n \nE! two\nthree is too long\n\x1b[31mfour"
	want := []Line{
		{Level: slog.LevelWarn, Text: "one"},
		{Level: slog.LevelError, Text: "two"},
		{Level: slog.LevelWarn, Text: "three is …", Truncated: true},
		{Level: slog.LevelWarn, Text: `\x1b[31mfour`},
	}
	for i := range len(stream) {
		var got []Line
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader := readStderr(r, func(l Line) { got = append(got, l) }, StderrOptions{MaxLine: 10})
		w.WriteString(stream[:i])
		w.WriteString(stream[i:])
		w.Close()
		<-reader.queue.done
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", i, diff)
		}
	}
}

// The number of dropped lines comes with the next line, or at the end.
func TestDroppedLinesAreCounted(t *testing.T) {
	r := &stderrReader{opts: StderrOptions{}.withDefaults(), queue: undelivered(2)}
	r.limiter = newLimiter(StderrOptions{Rate: 1e-9, Burst: 2})
	r.chunk([]byte("a\nb\nc\nd\n"))
	r.queue.next()
	r.queue.next()
	r.chunk([]byte(strings.Repeat("e\n", 1000)))
	r.limiter = newLimiter(StderrOptions{Rate: 1e-9, Burst: 1})
	r.chunk([]byte("f\ng\n"))
	r.finishLines()
	got := r.queue.lines
	want := []Line{
		{Level: slog.LevelWarn, Text: "f", Dropped: 1002},
		{Level: slog.LevelWarn, Text: "stderr lines dropped", Dropped: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// undelivered returns a queue without consumer.
func undelivered(max int) *lineQueue {
	d := newLineQueue(nil, max)
	d.busy = true
	return d
}

func TestTailKeepsTheLast20(t *testing.T) {
	var want []string
	for _, deliver := range []bool{false, true} {
		r := &stderrReader{opts: StderrOptions{}.withDefaults()}
		if deliver {
			r.limiter, r.queue = newLimiter(StderrOptions{Rate: 1e-9, Burst: 5}), undelivered(5)
		}
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintln(&b, i)
		}
		r.chunk([]byte(b.String() + "last"))
		r.finishLines()
		want = nil
		for i := 81; i < 100; i++ {
			want = append(want, fmt.Sprint(i))
		}
		if diff := cmp.Diff(append(want, "last"), r.tail.lines(time.Time{})); diff != "" {
			t.Errorf("tail (-want +got):\n%s", diff)
		}
	}
}

// BenchmarkFlood measures the cost of short lines per byte.
func BenchmarkFlood(b *testing.B) {
	r := &stderrReader{opts: StderrOptions{}.withDefaults(), queue: undelivered(1)}
	r.limiter = newLimiter(StderrOptions{Rate: 1e-9, Burst: 1})
	chunk := []byte(strings.Repeat("a short line\n", bigReadSize/13))
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		r.chunk(chunk)
	}
}
