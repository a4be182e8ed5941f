package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/redact"
)

// cassetteIn reads a cassette, and fails if it is incomplete.
func cassetteIn(t *testing.T, data []byte) (all []cassette.Record) {
	t.Helper()
	r, err := cassette.NewReader(bytes.NewReader(data), 0)
	for err == nil {
		var n cassette.Record
		if n, err = r.Next(); err == nil {
			all = append(all, n)
		}
	}
	if !errors.Is(err, io.EOF) || !r.Complete {
		t.Fatalf("%v, complete %v, %d records", err, r.Complete, len(all))
	}
	return all
}

func frame(text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"text":%q}}`, text)
}

func TestEveryFrameIsRecordedInOrder(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	before := h.Wire("early")
	before.Start(cassette.Start{Transport: "stdio"})
	before.Offer(func() *cassette.Offer { return &cassette.Offer{Protocol: "mcp"} })
	before.Frame(true, nil, frame("nobody records this"))
	var out bytes.Buffer
	r, err := h.Record(Options{To: &out})
	if err != nil {
		t.Fatal(err)
	}
	const runs, frames = 4, 2000
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			w := h.Wire(fmt.Sprint("x", i))
			w.Start(cassette.Start{})
			for n := range frames {
				w.Frame(n%2 == 0, nil, frame(fmt.Sprint(i, "/", n)))
			}
			w.End(cassette.End{Kind: "child_exited"})
		})
	}
	all.Wait()
	before.Noise([]byte("not \xff JSON"))
	if err := r.End("enough"); err != nil {
		t.Fatal(err)
	}
	before.Frame(true, nil, frame("nobody records this"))
	next, of, count := make(map[int]int), make(map[int]string), 0
	for _, n := range cassetteIn(t, out.Bytes()) {
		switch n.Kind {
		case cassette.KindStart:
			var s cassette.Start
			if err := json.Unmarshal(n.Payload, &s); err != nil {
				t.Fatal(err)
			}
			of[n.Run] = strings.TrimPrefix(s.Extension, "x")
		case cassette.KindSent, cassette.KindReceived:
			want := frame(fmt.Sprint(of[n.Run], "/", next[n.Run]))
			if string(n.Payload) != string(want) || (n.Kind == cassette.KindSent) != (next[n.Run]%2 == 0) {
				t.Fatalf("%s %s, want %s", n.Kind, n.Payload, want)
			}
			next[n.Run]++
			count++
		case cassette.KindNoise:
			if of[n.Run] != "early" {
				t.Error(n)
			}
		}
	}
	if count != runs*frames || len(of) != runs+1 {
		t.Errorf("%d frames of %d runs", count, len(of))
	}
	if h.active.Load() != nil {
		t.Error("the hub still records")
	}
}

// firstWrite calls do at the first write.
type firstWrite struct{ do func() }

func (w *firstWrite) Write(b []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(b), nil
}

// TestFramesAreRecordedFromTheFirstWrite checks that frames are recorded at the first write, which a reader takes as
// the sign that a recording is under way.
func TestFramesAreRecordedFromTheFirstWrite(t *testing.T) {
	for range 100 {
		h := New("1.0", new(redact.Redactor))
		var w *Wire
		for range 64 {
			w = h.Wire("x")
			w.Start(cassette.Start{})
			w.Offer(func() *cassette.Offer { return &cassette.Offer{Protocol: "mcp"} })
		}
		on := false
		r, err := h.Record(Options{To: &firstWrite{func() { on = w.On() }}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.End(""); err != nil || !on {
			t.Fatalf("%v, frames are recorded: %v", err, on)
		}
	}
}

// A recording that begins while a run ends has the run with its end, or not at all.
func TestARunThatEndsIsNotLeftOpen(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	for range 5000 {
		w := h.Wire("x")
		w.Start(cassette.Start{})
		var out bytes.Buffer
		var ended sync.WaitGroup
		ended.Go(func() { w.End(cassette.End{}) })
		r, err := h.Record(Options{To: &out})
		if err != nil {
			t.Fatal(err)
		}
		ended.Wait()
		if err := r.End("enough"); err != nil {
			t.Fatal(err)
		}
		var kinds []cassette.Kind
		for _, n := range cassetteIn(t, out.Bytes()) {
			kinds = append(kinds, n.Kind)
		}
		if kinds[0] == cassette.KindStart && kinds[1] != cassette.KindEnd {
			t.Fatalf("the run has the records %v", kinds)
		}
	}
}

// TestOmittedFramesAreCounted records a frame over the limit of a line, and one that is not JSON.
func TestOmittedFramesAreCounted(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	var out bytes.Buffer
	r, err := h.Record(Options{To: &out, maxWait: time.Hour}) // encoding 64 MiB takes time
	if err != nil {
		t.Fatal(err)
	}
	w := h.Wire("x")
	w.Start(cassette.Start{})
	w.Frame(false, nil, frame(strings.Repeat("x", cassette.MaxLine)))
	w.Frame(false, nil, []byte("{"))
	w.Frame(false, nil, frame("short"))
	if err := r.End(""); err != nil {
		t.Fatal(err)
	}
	if d := r.describe(); d.Omitted != 2 || d.Records != 4 {
		t.Errorf("%d of %d records are omitted, want 2 of 4", d.Omitted, d.Records)
	}
}

func TestOnlyNamedExtensionsAreRecorded(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	var out bytes.Buffer
	r, err := h.Record(Options{To: &out, Extensions: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		w := h.Wire(id)
		w.Start(cassette.Start{})
		w.Frame(true, nil, frame("of "+id))
	}
	if err := r.End(""); err != nil || !strings.Contains(out.String(), "of a") ||
		strings.Contains(out.String(), "of b") {
		t.Error(err, out.String())
	}
}

func TestTheBoundEndsTheRecordingAndNoCall(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	var out bytes.Buffer
	told := make(chan error, 1)
	r, err := h.Record(Options{To: &out, MaxBytes: 10 << 10, Ended: func(err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	w := h.Wire("a")
	w.Start(cassette.Start{})
	for range 1000 {
		w.Frame(true, nil, frame(strings.Repeat("x", 100)))
	}
	if err := <-told; !errors.Is(err, cassette.ErrFull) {
		t.Error(err)
	}
	<-r.Done()
	w.Frame(true, nil, frame("more"))
	all := cassetteIn(t, out.Bytes())
	if last := all[len(all)-1]; out.Len() > 10<<10 || !strings.Contains(string(last.Payload), "bound") {
		t.Errorf("%d bytes, %s", out.Len(), last.Payload)
	}
	if err := r.End(""); !errors.Is(err, cassette.ErrFull) {
		t.Error(err)
	}
}

// disk fails after a number of writes, or blocks until it is closed.
type disk struct {
	writes int
	blocks chan struct{}
}

var errDisk = errors.New("no space left on device")

func (d *disk) Write(b []byte) (int, error) {
	if d.writes--; d.writes >= 0 {
		return len(b), nil
	}
	if d.blocks != nil {
		<-d.blocks
	}
	return 0, errDisk
}

func TestAFailingDiskEndsTheRecordingAndNoCall(t *testing.T) {
	for writes := range 3 {
		h := New("1.0", new(redact.Redactor))
		told := make(chan error, 1)
		r, err := h.Record(Options{To: &disk{writes: writes}, Ended: func(err error) { told <- err }})
		if err != nil {
			t.Fatal(err)
		}
		w := h.Wire("a")
		w.Start(cassette.Start{})
		ended := false
		for i := 0; !ended; i++ {
			w.Frame(true, nil, frame(strings.Repeat("x", 100)))
			select {
			case err := <-told:
				if ended = true; !errors.Is(err, errDisk) {
					t.Error(err)
				}
			default:
			}
		}
		w.Frame(true, nil, frame("after"))
		if err := r.End(""); !errors.Is(err, errDisk) {
			t.Error(err)
		}
	}
}

func TestAFullQueueMakesCallsWaitButNotForEver(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	d := &disk{writes: 1, blocks: make(chan struct{})}
	r, err := h.Record(Options{To: d, maxWait: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := h.Wire("a")
	w.Start(cassette.Start{})
	big := frame(strings.Repeat("x", 1<<20))
	for range 2 * maxQueue >> 20 {
		w.Frame(true, nil, big)
	}
	if !r.hasEnded() {
		t.Error("the recording goes on")
	}
	close(d.blocks)
	if err := r.End(""); err == nil || !strings.Contains(err.Error(), "while calls waited") {
		t.Error(err)
	}
}

func TestACloseEndsAllRecordings(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	var out bytes.Buffer
	if _, err := h.Record(Options{To: &out, ID: "one"}); err != nil {
		t.Fatal(err)
	}
	if h.Stop("two") || h.Stop("") {
		t.Error("another recording was stopped")
	}
	h.Close()
	cassetteIn(t, out.Bytes())
	if _, err := h.Record(Options{To: &out}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestThereAreFewRecordingsAtATime(t *testing.T) {
	h := New("1.0", new(redact.Redactor))
	defer h.Close()
	for range maxRecordings {
		if _, err := h.Record(Options{To: io.Discard}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Record(Options{To: io.Discard}); err == nil {
		t.Error("there is no bound")
	}
}

// TestSecretsThatLeaveInTimeAreMasked removes a secret from the redactor while a frame with it is queued.
func TestSecretsThatLeaveInTimeAreMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the writer waits for more records until nothing else runs
		secrets := new(redact.Redactor)
		h := New("1.0", secrets)
		var out bytes.Buffer
		r, err := h.Record(Options{To: &out})
		if err != nil {
			t.Fatal(err)
		}
		w := h.Wire("a")
		w.Start(cassette.Start{})
		secrets.SetSecrets([]string{"opensesame-one"})
		w.Frame(true, nil, frame("opensesame-one opensesame-two"))
		secrets.SetSecrets([]string{"opensesame-two"})
		if err := r.End(""); err != nil || strings.Contains(out.String(), "opensesame") {
			t.Error(err, out.String())
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	text := frame("twelve bytes")
	for name, on := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			h := New("1.0", new(redact.Redactor))
			defer h.Close()
			if on {
				if _, err := h.Record(Options{To: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
			w := h.Wire("a")
			w.Start(cassette.Start{})
			b.ReportAllocs()
			for b.Loop() {
				w.Frame(true, nil, text)
			}
		})
	}
}
