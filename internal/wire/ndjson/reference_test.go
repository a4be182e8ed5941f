package ndjson

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// choppy returns a stream in pieces of random lengths. Sometimes it returns no data, an interruption or, at the end,
// data together with EOF.
type choppy struct {
	rest []byte
	r    *rand.Rand
	most int // max bytes per read
}

func (c *choppy) Read(p []byte) (int, error) {
	switch c.r.IntN(8) {
	case 0:
		return 0, nil
	case 1:
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, c.rest[:min(len(c.rest), 1+c.r.IntN(c.most))])
	c.rest = c.rest[n:]
	if len(c.rest) == 0 && (n == 0 || c.r.IntN(2) == 0) {
		return n, io.EOF
	}
	return n, nil
}

func (c *choppy) Close() error                    { return nil }
func (c *choppy) SetReadDeadline(time.Time) error { return nil }

// splitLines returns the expected lines of a stream, byte for byte.
func splitLines(stream []byte, max int) (lines [][]byte, err error) {
	for len(stream) > 0 {
		line, rest, _ := bytes.Cut(stream, []byte("\n"))
		if len(line) > max {
			return lines, ErrLineTooLong
		}
		lines = append(lines, bytes.TrimSuffix(line, []byte("\r")))
		stream = rest
	}
	return lines, io.EOF
}

// readLines returns the lines of r twice: copied when each was returned, and as owned by the caller after the whole
// stream has been read.
func readLines(r io.ReadCloser, max int) (then, now [][]byte, err error) {
	var l reader
	l.init(r, max)
	for {
		line, shared, ok, err := l.line()
		switch {
		case err != nil:
			return then, now, err
		case ok:
			then = append(then, bytes.Clone(line))
			if shared {
				line = then[len(then)-1]
			}
			now = append(now, line)
			continue
		}
		if err := l.fill(); err != nil && err != jsonrpc.ErrInterrupted {
			return then, now, err
		}
	}
}

// randomStream returns lines about as long as the buffers, where the reader changes buffers.
func randomStream(r *rand.Rand) (stream []byte) {
	sizes := []int{0, 1, 30, smallBuffer, 4 * smallBuffer, 16 * smallBuffer, biggestBuffer, 2 * biggestBuffer,
		3 * biggestBuffer}
	for i := range 1 + r.IntN(12) {
		n := max(0, sizes[r.IntN(len(sizes))]+r.IntN(7)-3)
		if r.IntN(4) == 0 {
			n = r.IntN(3 * biggestBuffer)
		}
		stream = append(stream, bytes.Repeat([]byte{byte('a' + i)}, n)...)
		stream = append(stream, []string{"\n", "\r\n", "\r\r\n", "\n\n"}[r.IntN(4)]...)
	}
	if r.IntN(2) == 0 { // ends within a line
		stream = stream[:r.IntN(len(stream)+1)]
	}
	return stream
}

// TestLinesAgainstReference reads random streams and compares with a simple reader. The subtests run in parallel
// because readers share the buffer pools.
func TestLinesAgainstReference(t *testing.T) {
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 25 {
				compareLines(t, rand.Uint64())
			}
		})
	}
}

func FuzzLines(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(compareLines)
}

func compareLines(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	stream := randomStream(r)
	limits := []int{100, smallBuffer, 16 * smallBuffer, biggestBuffer - 1, biggestBuffer, 2 * biggestBuffer, 1 << 30}
	limit := limits[r.IntN(len(limits))] + r.IntN(3) - 1
	most := []int{1, 100, smallBuffer, biggestBuffer, 1 << 20}[r.IntN(5)]
	if most == 1 {
		stream = stream[:min(len(stream), 3*biggestBuffer)]
	}
	want, wantErr := splitLines(stream, limit)
	then, now, err := readLines(&choppy{stream, r, most}, limit)
	if !errors.Is(err, wantErr) || !equalLines(then, want) {
		t.Errorf("seed %d: %d bytes, limit %d: %d lines, %v; want %d lines, %v", seed, len(stream), limit, len(then),
			err, len(want), wantErr)
	}
	if !equalLines(now, want) {
		t.Errorf("seed %d: a line changed after it was returned", seed)
	}
}

func equalLines(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte("\n")), bytes.Join(b, []byte("\n"))) && len(a) == len(b)
}

// TestReadOwnsItsMemory checks that later reads, by any reader, do not change a message.
func TestReadOwnsItsMemory(t *testing.T) {
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			var want []string
			for i := range 60 {
				size := smallBuffer << r.IntN(9)
				want = append(want, answer(i, `"`+strings.Repeat(string(rune('a'+i%26)), r.IntN(size))+`"`))
			}
			stream := []byte(strings.Join(want, "\r\n") + "\n")
			l := New(&choppy{stream, r, biggestBuffer}, discard{io.Discard}, Options{})
			defer l.Close()
			var got []jsonrpc.Message
			for {
				m, err := l.Read()
				if err == io.EOF {
					break
				}
				if err != jsonrpc.ErrInterrupted && err != nil {
					t.Fatal(err)
				}
				if err == nil {
					got = append(got, m)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%d messages, want %d", len(got), len(want))
			}
			for i, m := range got {
				if string(m.Raw) != want[i] || want[i] != answer(i, string(m.Result)) {
					t.Errorf("message %d of %d bytes changed", i, len(m.Raw))
				}
			}
		})
	}
}
