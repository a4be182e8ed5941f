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
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream))} {
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

func TestF9EventsAreBounded(t *testing.T) {
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
