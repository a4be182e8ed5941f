package ndjson

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// osPipe returns a transport that writes to a real pipe, and the peer's end.
func osPipe(t *testing.T, o Options) (l *Transport, peer *os.File) {
	t.Helper()
	peer, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, keep, err := os.Pipe() // input of the transport, empty until closed
	if err != nil {
		t.Fatal(err)
	}
	l = New(in, w, o)
	t.Cleanup(func() {
		l.Close()
		peer.Close()
		keep.Close()
	})
	return l, peer
}

func request(id int, size int) jsonrpc.Message {
	return jsonrpc.Message{
		ID:     json.RawMessage(fmt.Sprint(id)),
		Method: "m",
		Params: json.RawMessage(`"` + strings.Repeat("x", size) + `"`),
	}
}

// TestBlockedPeerBlocksWrite writes to a pipe without a reader until Write blocks. Write must return when its ctx ends.
func TestBlockedPeerBlocksWrite(t *testing.T) {
	l, peer := osPipe(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	accepted, blocked := 0, make(chan error)
	for ; l.out.queued() <= maxUnwritten; accepted++ {
		size := 100_000
		if accepted == 0 {
			size = 3 << 20 // the pipe takes a part; the rest counts against the bound while it is being written
		}
		if err := l.Write(ctx, request(accepted, size)); err != nil {
			t.Fatal(err)
		}
	}
	go func() { blocked <- l.Write(ctx, request(accepted, 1)) }()
	cancel()
	if err := <-blocked; err != context.Canceled || jsonrpc.Written(err) {
		t.Errorf("blocked writer: %v, written %t", err, jsonrpc.Written(err))
	}
	go func() { blocked <- l.Flush(t.Context()) }()
	scan := bufio.NewReaderSize(peer, 1<<20)
	for i := range accepted {
		line, err := scan.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m, err := jsonrpc.Decode(line); err != nil || string(m.ID) != fmt.Sprint(i) {
			t.Fatalf("frame %d: %.60s, %v", i, line, err)
		}
	}
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	l.Close()
	if rest, err := io.ReadAll(scan); err != nil || len(rest) > 0 {
		t.Errorf("after the accepted frames: %.60q, %v", rest, err)
	}
}

// brokenSink takes n bytes of the first frame and breaks.
type brokenSink struct{ n int }

func (s brokenSink) try([]byte) (int, error)                  { return s.n, syscall.EPIPE }
func (s brokenSink) write([]byte, time.Duration) (int, error) { return 0, syscall.EPIPE }

// TestPartialWriteIsWritten: the peer may act on a frame that it got a part of.
func TestPartialWriteIsWritten(t *testing.T) {
	for n, written := range map[int]bool{0: false, 1: true} {
		l, _ := osPipe(t, Options{})
		l.out.sink = brokenSink{n}
		if err := l.Write(t.Context(), request(1, 10)); !errors.Is(err, syscall.EPIPE) ||
			jsonrpc.Written(err) != written {
			t.Errorf("after %d bytes: %v, written %t", n, err, jsonrpc.Written(err))
		}
	}
}

// queued returns the number of bytes waiting for the pipe.
func (w *writer) queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.buf) + w.unwritten
}

// TestBlockedPeerCostsNoCopies queues many small frames for a peer that does not read. The allocations must be
// proportional to the queued bytes.
func TestBlockedPeerCostsNoCopies(t *testing.T) {
	l, _ := osPipe(t, Options{})
	if err := l.Write(t.Context(), request(1, 2<<20)); err != nil { // more than the pipe takes
		t.Fatal(err)
	}
	m := request(2, 1000)
	largeBuffers = sync.Pool{} // another test's buffer may be large enough
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for l.out.queued() <= maxUnwritten {
		if err := l.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8*maxUnwritten {
		t.Errorf("allocated %d bytes for at most %d that wait", got, maxUnwritten)
	}
}

// TestNoTornFrames cancels writers at random while the peer reads slowly. Accepted frames arrive whole and once,
// refused ones do not arrive.
func TestNoTornFrames(t *testing.T) {
	l, peer := osPipe(t, Options{})
	const writers, each = 8, 50
	accepted := make(chan int, writers*each)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
				if l.Write(ctx, request(w*each+i, rand.IntN(300_000))) == nil {
					accepted <- w*each + i
				}
				cancel()
			}
		})
	}
	go func() {
		wg.Wait()
		close(accepted)
		_ = l.Flush(t.Context()) // the peer keeps reading, so this ends
		l.Close()
	}()
	arrived := make(map[string]int)
	for scan := bufio.NewReaderSize(peer, 4096); ; {
		line, err := scan.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			break
		}
		m, decodeErr := jsonrpc.Decode(line)
		if err != nil || decodeErr != nil {
			t.Fatalf("torn frame %.60q: %v, %v", line, err, decodeErr)
		}
		arrived[string(m.ID)]++
	}
	n := 0
	for id := range accepted {
		n++
		if arrived[fmt.Sprint(id)] != 1 {
			t.Errorf("frame %d arrived %d times", id, arrived[fmt.Sprint(id)])
		}
	}
	if len(arrived) != n || n == 0 {
		t.Errorf("%d accepted, %d arrived", n, len(arrived))
	}
}

func TestStalledPipe(t *testing.T) {
	l, _ := osPipe(t, Options{WriteTimeout: 20 * time.Millisecond})
	if err := l.Write(t.Context(), request(1, 100_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(); !errors.Is(err, ErrStalled) {
		t.Errorf("Read: %v", err)
	}
	if err := l.Write(t.Context(), request(2, 1)); !errors.Is(err, ErrStalled) || jsonrpc.Written(err) {
		t.Errorf("Write: %v", err)
	}
}

// TestStalledStream has a peer that reads a little just before each timeout, and then nothing.
func TestStalledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keep := io.Pipe()
		peer, w := io.Pipe()
		l := New(in, w, Options{})
		start := time.Now()
		if err := l.Write(t.Context(), request(1, 3*streamChunk)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(defaultWriteTimeout - 1)
			if _, err := io.ReadFull(peer, make([]byte, streamChunk)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := l.Read(); !errors.Is(err, ErrStalled) {
			t.Error(err)
		}
		if got := time.Since(start); got != 3*defaultWriteTimeout-2 {
			t.Errorf("stalled after %v", got)
		}
		l.Close()
		keep.Close()
	})
}

// TestLastWords has the peer answer and then close its input. The answer must still be read.
func TestLastWords(t *testing.T) {
	peer, w, _ := os.Pipe()
	r, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := New(r, w, Options{})
	defer l.Close()
	fmt.Fprintln(answers, answer(1, "0"))
	peer.Close()
	if err := l.Write(t.Context(), request(2, 10)); !errors.Is(err, syscall.EPIPE) || jsonrpc.Written(err) {
		t.Errorf("Write: %v, written %t", err, jsonrpc.Written(err))
	}
	if m, err := l.Read(); err != nil || string(m.ID) != "1" {
		t.Errorf("Read: %s, %v", m.Raw, err)
	}
	if _, err := l.Read(); !errors.Is(err, syscall.EPIPE) { // answers stays open
		t.Errorf("Read: %v", err)
	}
	answers.Close()
}

// TestWriteLater checks that held answers are written together, at the latest when the reader waits for input.
func TestWriteLater(t *testing.T) {
	peer, w, _ := os.Pipe()
	r, requests, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := New(r, w, Options{})
	for i := range 3 {
		if err := l.WriteLater(t.Context(), request(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Traffic().BytesOut; n != 0 {
		t.Errorf("%d bytes left early", n)
	}
	read := make(chan error)
	go func() {
		_, err := l.Read()
		read <- err
	}()
	b := make([]byte, 4096)
	n, err := peer.Read(b)
	if lines := strings.Count(string(b[:n]), "\n"); lines != 3 || err != nil {
		t.Errorf("%d lines at once, %v", lines, err)
	}
	requests.Close()
	if err := <-read; err != io.EOF {
		t.Error(err)
	}
	drained := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, peer)
		drained <- err
	}()
	for l.Traffic().BytesOut < uint64(n)+maxBatch { // a full buffer is written at once
		if err := l.WriteLater(t.Context(), request(1, 1000)); err != nil {
			t.Fatal(err)
		}
		if held := l.out.queued(); held > maxBatch {
			t.Fatalf("%d bytes held back", held)
		}
	}
	l.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
	peer.Close()
}

func TestWriteRefusesBrokenPayload(t *testing.T) {
	l, peer := osPipe(t, Options{})
	err := l.Write(t.Context(), jsonrpc.Message{Method: "m", Params: json.RawMessage("{\n")})
	if err == nil || jsonrpc.Written(err) {
		t.Errorf("%v, written %t", err, jsonrpc.Written(err))
	}
	if err := l.Write(t.Context(), request(1, 1)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(peer).ReadString('\n'); err != nil ||
		!strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,`) {
		t.Errorf("%q, %v", line, err)
	}
}

// TestCloseUnblocks closes while a reader, a writer waiting for room and the writing goroutine are blocked.
func TestCloseUnblocks(t *testing.T) {
	l, _ := osPipe(t, Options{})
	for l.out.queued() <= maxUnwritten {
		if err := l.Write(t.Context(), request(1, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 3)
	go func() { ended <- l.Write(t.Context(), request(2, 1)) }()
	go func() { ended <- l.Flush(t.Context()) }()
	go func() {
		_, err := l.Read()
		ended <- err
	}()
	l.Close()
	for range 3 {
		if err := <-ended; err != jsonrpc.ErrClosed {
			t.Error(err)
		}
	}
	if l.Close() != nil {
		t.Error("closing twice fails")
	}
}

// TestHalfOfWhatArrivedIsABatch: when requests arrive together, half of the answers are written while the others are
// made.
func TestHalfOfWhatArrivedIsABatch(t *testing.T) {
	peer, w, _ := os.Pipe()
	r, requests, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := New(r, w, Options{})
	defer peer.Close()
	defer l.Close()
	const together = 8
	if _, err := io.WriteString(requests,
		strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n", together)); err != nil {
		t.Fatal(err)
	}
	requests.Close()
	written := l.Traffic().BytesOut
	for i := range together {
		if _, err := l.Read(); err != nil {
			t.Fatal(err)
		}
		if err := l.WriteLater(t.Context(), request(i, 10)); err != nil {
			t.Fatal(err)
		}
		now := l.Traffic().BytesOut
		if complete := i == together/2-1 || i == together-1; (now > written) != complete {
			t.Errorf("after answer %d of %d, %d bytes were written", i+1, together, now-written)
		}
		written = now
	}
}

// endingSink takes a number of writes and then none.
type endingSink struct {
	left  int
	taken map[string]bool // the ids of the frames
}

func (s *endingSink) try(b []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, syscall.EPIPE
	}
	for line := range strings.Lines(string(b)) {
		if m, err := jsonrpc.Decode([]byte(line)); err == nil {
			s.taken[string(m.ID)] = true
		}
	}
	return len(b), nil
}

func (s *endingSink) write([]byte, time.Duration) (int, error) { return 0, syscall.EPIPE }

// TestTakenFramesAreWritten has many callers write in batches to a peer that ends. A caller whose frame was taken
// must not get an error that allows a retry.
func TestTakenFramesAreWritten(t *testing.T) {
	for round := range 300 {
		l, _ := osPipe(t, Options{})
		s := &endingSink{left: 5 + round%20, taken: make(map[string]bool)}
		l.out.sink = s
		l.out.arrived.Store(8)
		var mu sync.Mutex
		unsent := make(map[string]error)
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for i := range 50 {
					id := caller*1000 + i + 1
					if err := l.Write(t.Context(), request(id, 10)); err != nil && !jsonrpc.Written(err) {
						mu.Lock()
						unsent[fmt.Sprint(id)] = err
						mu.Unlock()
					}
				}
			})
		}
		callers.Wait()
		l.Close()
		for id, err := range unsent {
			if s.taken[id] {
				t.Fatalf("round %d: frame %s was taken, and its caller was told: %v", round, id, err)
			}
		}
	}
}
