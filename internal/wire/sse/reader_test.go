package sse

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReader(t *testing.T) {
	const stream = ": hello\n\nid: 1\nretry: 20\ndata: {\"a\":1}\n\n" +
		"event: endpoint\r\ndata: /x\r\n\r\n" +
		"data: one\ndata:two\ndata:  three\nunknown: y\ndata\n\n" +
		"id: 2\n\nid: 3\ndata: \n\nretry: soon\ndata: half"
	for name, r := range map[string]io.Reader{
		"whole":        strings.NewReader(stream),
		"byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			e := NewReader(r, 100)
			var got []string
			var err error
			for {
				var next Event
				if next, err = e.Next(); err != nil {
					break
				}
				got = append(got, next.Name+"|"+string(next.Data)+"|"+e.LastID)
			}
			want := []string{`|{"a":1}|1`, "endpoint|/x|1", "|one\ntwo\n three\n|1", "||3"}
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) || e.Retry != 20*time.Millisecond {
				t.Errorf("%v, retry %v\n%s", err, e.Retry, diff)
			}
		})
	}
}

// An id that no header can carry is ignored: a stream is resumed by a header with the last id.
func TestIDsThatNoHeaderCarriesAreIgnored(t *testing.T) {
	for _, id := range []string{"a\x00b", "a\x01b", "\x7f"} {
		e := NewReader(strings.NewReader("id: 1\nid: "+id+"\ndata: x\n\n"), 100)
		if _, err := e.Next(); err != nil || e.LastID != "1" {
			t.Errorf("after the id %q: id %q, %v", id, e.LastID, err)
		}
	}
}

// Lines end in LF, CR or CRLF, and a stream may begin with a byte order mark.
func TestLineEnds(t *testing.T) {
	for name, stream := range map[string]string{
		"LF":                "data: a\ndata: b\n\n:\n\ndata: c\n\n",
		"CR":                "data: a\rdata: b\r\r:\r\rdata: c\r\r",
		"CRLF":              "data: a\r\ndata: b\r\n\r\n:\r\n\r\ndata: c\r\n\r\n",
		"mixed":             "data: a\rdata: b\r\n\r:\n\rdata: c\n\n",
		"a byte order mark": "\xef\xbb\xbfdata: a\ndata: b\n\ndata: c\n\n\xef\xbb\xbfdata: later\n\n",
	} {
		for how, r := range map[string]io.Reader{
			"whole":        strings.NewReader(stream),
			"byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
		} {
			e := NewReader(r, 100)
			var got []string
			for {
				next, err := e.Next()
				if err != nil {
					break
				}
				got = append(got, string(next.Data))
			}
			if diff := cmp.Diff([]string{"a\nb", "c"}, got); diff != "" {
				t.Errorf("%s, %s:\n%s", name, how, diff)
			}
		}
	}
}

// An event that ends in CR is returned before the next byte arrives.
func TestEventThatEndsInCRIsNotDelayed(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go w.Write([]byte("data: a\r\r"))
	if got, err := NewReader(r, 100).Next(); err != nil || string(got.Data) != "a" {
		t.Errorf("%q, %v", got.Data, err)
	}
}

func TestEventsAreBounded(t *testing.T) {
	const limit = 1 << 16
	for name, test := range map[string]struct {
		stream string
		ok     bool
	}{
		"at the limit":    {"data: " + strings.Repeat("x", limit) + "\n\n", true},
		"over it":         {"data: " + strings.Repeat("x", limit+3) + "\n\n", false},
		"without an end":  {"data: " + strings.Repeat("x", 4*limit), false},
		"of many lines":   {strings.Repeat("data: xxxxxxxx\n", limit/8) + "\n", false},
		"of other fields": {strings.Repeat("x: xxxxxxxx\n", limit), false},
		"a comment":       {":" + strings.Repeat("x", 4*limit), false},
		"many events":     {strings.Repeat("data: xxxxxxxx\n\n", limit), true},
	} {
		e := NewReader(strings.NewReader(test.stream), limit)
		var err error
		for err == nil {
			_, err = e.Next()
		}
		if errors.Is(err, ErrTooLarge) == test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReader checks that no event exceeds the limit.
func FuzzReader(f *testing.F) {
	f.Add("id: 1\nretry: 5\nevent: x\ndata: {}\n\n", 10)
	f.Add("data\n\r\n:\n\n", 1)
	f.Fuzz(func(t *testing.T, stream string, limit int) {
		limit = 1 + abs(limit)%1000
		e := NewReader(strings.NewReader(stream), limit)
		for {
			got, err := e.Next()
			if err != nil {
				return
			}
			if len(got.Data) > limit {
				t.Fatalf("an event of %d bytes over %d", len(got.Data), limit)
			}
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }
