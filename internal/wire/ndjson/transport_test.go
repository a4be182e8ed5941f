package ndjson

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// discard is a writer for transports that only read.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

func readingTransport(r io.Reader, o Options) *Transport {
	return New(io.NopCloser(r), discard{io.Discard}, o)
}

// readAll returns the raw frames up to the final error.
func readAll(l *Transport) (frames []string, err error) {
	for {
		m, err := l.Read()
		if err != nil {
			return frames, err
		}
		frames = append(frames, string(m.Raw))
	}
}

func answer(id int, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result)
}

func TestLinesInChunks(t *testing.T) {
	var want []string
	for i := range 1000 {
		want = append(want, answer(i, `"`+strings.Repeat("é", i%7)+`"`))
	}
	stream := strings.Join(want, "\n") + "\n"
	short := strings.Join(want[:5], "\r\n") + "\n"
	check := func(name string, r io.Reader, want []string) {
		t.Helper()
		got, err := readAll(readingTransport(r, Options{}))
		if err != io.EOF || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%s: %d frames, %v", name, len(got), err)
		}
	}
	check("at once", strings.NewReader(stream), want)
	check("byte by byte", iotest.OneByteReader(strings.NewReader(stream)), want)
	check("data with EOF", iotest.DataErrReader(strings.NewReader(stream)), want)
	for i := range len(short) {
		parts := io.MultiReader(strings.NewReader(short[:i]), strings.NewReader(short[i:]))
		check(fmt.Sprint("split at ", i), parts, want[:5])
	}
}

func TestLineLimit(t *testing.T) {
	for _, limit := range []int{100, smallBuffer - 1, smallBuffer, smallBuffer + 1, 4 * smallBuffer, 100_000,
		biggestBuffer - 1, biggestBuffer, biggestBuffer + 1, 3 * biggestBuffer, 3*biggestBuffer + 1} {
		line := answer(1, `"`+strings.Repeat("x", limit-len(answer(1, `""`)))+`"`)
		two := line + "\n" + line
		if got, err := readAll(readingTransport(strings.NewReader(two), Options{MaxLineBytes: limit})); len(got) != 2 ||
			err != io.EOF {
			t.Errorf("limit %d: %d frames, %v", limit, len(got), err)
		}
		for _, ending := range []string{" ", " \n", "\r\n"} {
			over := line + "\n" + line + ending
			if got, err := readAll(readingTransport(strings.NewReader(over), Options{MaxLineBytes: limit})); len(got) !=
				1 || err != ErrLineTooLong {
				t.Errorf("limit %d + 1 byte %q: %d frames, %v", limit, ending, len(got), err)
			}
		}
	}
}

// endless is a gigabyte without a newline.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'x'
	}
	e.left -= len(p)
	return len(p), nil
}

func TestEndlessLine(t *testing.T) {
	const limit = 16 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readingTransport(&endless{1 << 30}, Options{}).Read()
	runtime.ReadMemStats(&after)
	if err != ErrLineTooLong {
		t.Error(err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2*limit {
		t.Errorf("allocated %d bytes, more than twice the limit", got)
	}
}

func TestLongLineIsForgotten(t *testing.T) {
	long := answer(1, `"`+strings.Repeat("x", 1<<20)+`"`)
	l := readingTransport(io.MultiReader(strings.NewReader(long+"\n"), strings.NewReader(answer(2, "0")+"\n")),
		Options{})
	if m, err := l.Read(); err != nil || string(m.Raw) != long {
		t.Fatal(err)
	}
	if m, err := l.Read(); err != nil || string(m.ID) != "2" {
		t.Fatal(err)
	}
	if len(l.in.buf) != smallBuffer {
		t.Errorf("an idle reader holds %d bytes", len(l.in.buf))
	}
}

func TestLineThatDoesNotEndIsForgotten(t *testing.T) {
	const limit = 10 * biggestBuffer
	broken := errors.New("broken")
	for _, c := range []struct {
		size int
		want error
	}{{limit + 1, ErrLineTooLong}, {limit, broken}, {100, broken}} {
		r := io.MultiReader(strings.NewReader(strings.Repeat("x", c.size)), iotest.ErrReader(broken))
		l := readingTransport(r, Options{MaxLineBytes: limit})
		if _, err := l.Read(); err != c.want {
			t.Error(err)
		}
		if len(l.in.parts) != 0 || len(l.in.buf) != smallBuffer {
			t.Errorf("after %d bytes and %v the reader holds %d parts and %d bytes", c.size, c.want, len(l.in.parts),
				len(l.in.buf))
		}
	}
}

func TestNoiseIsLimited(t *testing.T) {
	good := answer(1, "0")
	noise := strings.Repeat("Starting up...\n", maxNoise-1)
	for _, c := range []struct {
		name, stream string
		frames       int
		noise        uint64
		err          error
	}{
		{"BOM and CRLF", "\xef\xbb\xbf" + good + "\r\n\r\n \n" + good + "\r\n", 2, 0, io.EOF},
		{"below the limit", noise + good + "\n" + noise + good + "\n", 2, 2 * (maxNoise - 1), io.EOF},
		{"at the limit", noise + "{}\n" + good + "\n", 0, maxNoise, ErrNoise},
		{"batch", "[" + good + "]\n" + good + "\n", 1, 1, io.EOF},
		{"W9 half a line at the end", good + "\n" + good[:20], 1, 1, io.EOF},
		{"W9 half a long line at the end", (good + strings.Repeat("x", biggestBuffer))[:biggestBuffer], 0, 1, io.EOF},
		{"no newline at the end", good + "\n" + good, 2, 0, io.EOF},
		{"nothing but a newline", "\n", 0, 0, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := readingTransport(strings.NewReader(c.stream), Options{})
			frames, err := readAll(l)
			if len(frames) != c.frames || l.Traffic().Noise != c.noise || err != c.err {
				t.Errorf("%d frames, %d noise, %v", len(frames), l.Traffic().Noise, err)
			}
		})
	}
}

func TestNoiseCallback(t *testing.T) {
	enough := errors.New("enough")
	var lines []string
	l := readingTransport(strings.NewReader("one\ntwo\xff\r\nthree\n"),
		Options{Noise: func(line []byte, err error) error {
			lines = append(lines, string(line))
			if err == nil || len(lines) == 2 {
				return enough
			}
			return nil
		}})
	if _, err := l.Read(); err != enough {
		t.Error(err)
	}
	if got := strings.Join(lines, "|"); got != "one|two\xff" {
		t.Errorf("%q", got)
	}
}

func TestInterruptLosesNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := New(r, discard{io.Discard}, Options{})
	defer l.Close()
	if !l.CanInterrupt() || readingTransport(r, Options{}).CanInterrupt() {
		t.Fatal("a pipe can be interrupted, an io.Reader cannot")
	}
	frame := answer(1, "0")
	for i := range len(frame) {
		if _, err := w.WriteString(frame[i : i+1]); err != nil {
			t.Fatal(err)
		}
		for l.in.end-l.in.start <= i { // until the byte has been read
			l.Interrupt()
			if _, err := l.Read(); err != jsonrpc.ErrInterrupted {
				t.Fatal(err)
			}
			if err := l.in.fill(); err != nil && err != jsonrpc.ErrInterrupted {
				t.Fatal(err)
			}
		}
	}
	w.Close()
	if m, err := l.Read(); err != nil || string(m.Raw) != frame {
		t.Errorf("%s, %v", m.Raw, err)
	}
}

// TestFreedLinesAreReused frees every second of many long lines. Later lines get their memory, unless they are much
// shorter, and the kept ones stay as they are.
func TestFreedLinesAreReused(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may empty the pool
	text := func(i int) string { return `"` + strings.Repeat(string(rune('a'+i%26)), 3*biggestBuffer) + `"` }
	var stream strings.Builder
	const n = 60
	for i := range n {
		stream.WriteString(answer(i, text(i)) + "\n")
	}
	stream.WriteString(answer(n, `"`+strings.Repeat("x", biggestBuffer)+`"`) + "\n")
	l := readingTransport(strings.NewReader(stream.String()), Options{})
	kept := make(map[int]jsonrpc.Message)
	places := make(map[*byte]bool)
	for i := range n {
		m, err := l.Read()
		if err != nil || string(m.Result) != text(i) {
			t.Fatalf("line %d: %.40s, %v", i, m.Result, err)
		}
		places[&m.Raw[0]] = true
		if i%2 == 0 {
			m.Free()
		} else {
			kept[i] = m
		}
	}
	for i, m := range kept {
		if string(m.Result) != text(i) {
			t.Errorf("line %d became %.40s", i, m.Result)
		}
		m.Free()
	}
	if len(places) == n {
		t.Errorf("no memory of %d freed lines was used again", n/2)
	}
	if m, err := l.Read(); err != nil || cap(m.Raw) > 2*len(m.Raw) {
		t.Errorf("a line of %d bytes takes %d, %v", len(m.Raw), cap(m.Raw), err)
	}
}

// TestLongNoiseIsReused frees long lines that are no messages, once Noise has seen them.
func TestLongNoiseIsReused(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may empty the pool
	const n = 30
	places := make(map[*byte]bool)
	noise := strings.Repeat("x", 3*biggestBuffer) + "\n"
	l := readingTransport(strings.NewReader(strings.Repeat(noise, n)), Options{Noise: func(line []byte, _ error) error {
		places[&line[0]] = true
		return nil
	}})
	if _, err := l.Read(); err == nil || len(places) == n {
		t.Errorf("%d lines have %d places, %v", n, len(places), err)
	}
}

// TestWasteIsHeldUp sends many bytes that are not messages.
func TestWasteIsHeldUp(t *testing.T) {
	for name, line := range map[string]string{"empty lines": "\n", "spaces": "       \n", "noise": "water!!\n"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stream := strings.Repeat(line, 5*maxWaste/len(line)) + `{"jsonrpc":"2.0","method":"water","params":"all"}`
			l := readingTransport(strings.NewReader(stream), Options{Noise: func([]byte, error) error { return nil }})
			if m, err := l.Read(); err != nil || m.Method != "water" {
				t.Errorf("%s: %s, %v", name, m.Raw, err)
			}
			if took := time.Since(start); took != 5*noisePause {
				t.Errorf("%s: held up for %v", name, took)
			}
		})
	}
}

// TestSigns counts the signs of life of a peer: messages, and reads in the middle of one, but not lines that are no
// messages, complete or not.
func TestSigns(t *testing.T) {
	long := answer(2, `"`+strings.Repeat("x", 2*biggestBuffer)+`"`) + "\n"
	for _, test := range []struct {
		reads []string
		want  uint64
		more  bool // or more: the buffers grow
	}{
		{[]string{"noise\r\n\n  \n" + strings.Repeat("x", 3*biggestBuffer) + "\n"}, 0, false},
		{[]string{"\r|", "\r/", "\r-"}, 0, false},
		{[]string{answer(1, "0") + "\n" + answer(2, "0") + "\n"}, 2, false},
		{[]string{" {", `"jsonrpc"`, `:"2.0","id":1,`, "\"result\":0}\n"}, 4, false},
		{[]string{long[:10], long[10 : 2*biggestBuffer], long[2*biggestBuffer:]}, 4, true},
	} {
		var stream []io.Reader
		for _, read := range test.reads {
			stream = append(stream, strings.NewReader(read))
		}
		l := readingTransport(io.MultiReader(stream...), Options{Noise: func([]byte, error) error { return nil }})
		_, err := readAll(l)
		if n := l.Traffic().Signs; err != io.EOF || n < test.want || n > test.want && !test.more {
			t.Errorf("%.20q: %d signs, want %d; %v", test.reads, n, test.want, err)
		}
	}
}

// TestPartial asks for the incomplete line between the reads of a stream.
func TestPartial(t *testing.T) {
	r, w := io.Pipe()
	l := New(r, discard{io.Discard}, Options{})
	defer l.Close()
	begun := make(chan error, 1)
	go func() {
		_, err := l.Read()
		begun <- err
	}()
	long := strings.Repeat("x", maxPartial)
	says := func(text, want string, bytes int) {
		t.Helper()
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(nil); err != nil { // taken by the next read, so the reader waits with all of text
			t.Fatal(err)
		}
		if begin, n := l.Partial(); string(begin) != want || n != bytes {
			t.Errorf("after %.20q: %q, %d bytes; want %q, %d", text, begin, n, want, bytes)
		}
	}
	says("\n\n", "", 0)
	says("\n{", "{", 1)
	says(long, "{"+long[1:], 1+len(long))
	says("\n", "", 0)
	says(answer(1, "0"), answer(1, "0"), len(answer(1, "0")))
	if _, err := io.WriteString(w, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Error(err)
	}
	if begin, n := l.Partial(); n != 0 {
		t.Errorf("after the answer: %q, %d bytes", begin, n)
	}
}

// TestBacklog writes to a peer that does not read.
func TestBacklog(t *testing.T) {
	l, peer := osPipe(t, Options{})
	if err := l.Write(t.Context(), request(1, 10)); err != nil {
		t.Fatal(err)
	}
	sent := int(l.Traffic().BytesOut)
	told := func(n int) int {
		if runtime.GOOS != "linux" {
			return -1
		}
		return n
	}
	if b := l.Backlog(); b != (Backlog{Unread: told(sent), Output: told(0)}) || sent == 0 {
		t.Errorf("%+v after %d bytes", b, sent)
	}
	if err := l.Write(t.Context(), request(2, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if b := l.Backlog(); b.Unsent == 0 {
		t.Errorf("%+v with a full pipe", b)
	}
	if _, err := peer.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(t.Context(), request(3, 1<<20)); err != nil { // waits behind the second
		t.Fatal(err)
	}
	l.Close()
	if b := l.Backlog(); b.Unsent != 0 || b.Unread != -1 {
		t.Errorf("%+v of a closed transport", b)
	}
	if l.out.buf != nil || l.out.writing != nil {
		t.Errorf("a closed transport keeps %d bytes of frames", cap(l.out.buf)+cap(l.out.writing))
	}
}
