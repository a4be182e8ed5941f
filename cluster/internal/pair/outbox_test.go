package pair

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// recorded records each message: its run, its letters, and the calls in its token.
type recorded struct {
	t     *testing.T
	lines []string
}

func (r *recorded) MaxPayload() int { return 1000 }

func (r *recorded) Send(to wire.Address, notTaken string, m []byte) error {
	if len(m) > r.MaxPayload() {
		r.t.Errorf("a message of %d bytes", len(m))
	}
	line := to.Node + ":"
	for one := range wire.Messages(m) {
		h, _, err := wire.Decode(one)
		if err != nil {
			r.t.Fatal(err)
		}
		line += fmt.Sprint(" ", h.Kind, h.N)
	}
	if back, calls, ok := readToken(notTaken); ok {
		if back != to {
			r.t.Errorf("%s goes to %v", notTaken, to)
		}
		line += fmt.Sprint(" ", calls)
	}
	r.lines = append(r.lines, line)
	return fmt.Errorf("error %d", len(r.lines))
}

// Letters to one run are batched in order, as many as fit. A run that does not read batches gets each on its
// own. Each letter reports the error of its message.
func TestLettersAreBatched(t *testing.T) {
	const run = "aaaaaaaaaa"
	r := &recorded{t: t}
	o := newOutbox(r, func(to wire.Address) bool { return to.Node != "old" })
	var told []string
	for i, l := range []struct {
		node, kind string
		long       int
	}{
		{"b", wire.Call, 1}, {"a", wire.Result, 1}, {"old", wire.Call, 1}, {"b", wire.Result, 1}, {"b", wire.Call, 1},
		{"a", wire.Result, 1},
		{"old", wire.Call, 1}, {"b", wire.Call, 940}, {"b", wire.Call, 1}, {"c", wire.Pulse, 1},
	} {
		one, err := newLetter(wire.Address{Node: l.node, Run: run}, &wire.Head{Kind: l.kind, Run: run, N: uint64(i)},
			make([]byte, l.long))
		if err != nil {
			t.Fatal(err)
		}
		one.sent = func(err error) { told = append(told, fmt.Sprint(i, " ", err)) }
		o.post(one)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	o.run(over)
	if want := []string{
		"a: result1 result5",
		"b: call0 result3 call4 [0 4]",
		"b: call7 [7]",
		"b: call8 [8]",
		"c: pulse9 [9]",
		"old: call2 [2]",
		"old: call6 [6]",
	}; !slices.Equal(r.lines, want) {
		t.Errorf("%q, want %q", r.lines, want)
	}
	if want := []string{"1 error 1", "5 error 1", "0 error 2", "3 error 2", "4 error 2", "7 error 3", "8 error 4",
		"9 error 5", "2 error 6", "6 error 7"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	for _, other := range []string{"", "calls", "probe_1_a_b", "calls_1_a"} {
		if _, _, ok := readToken(other); ok {
			t.Errorf("%q is taken", other)
		}
	}
}
