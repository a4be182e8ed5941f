package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A batch returns the messages that were put into it, and a message that is not a batch returns itself.
func TestBatch(t *testing.T) {
	messages := [][]byte{[]byte("{\"k\":\"call\"}\nbody"), {}, {0}, bytes.Repeat([]byte("x"), 1<<17)}
	var all []byte
	size := 0
	for _, m := range messages {
		all = AppendToBatch(all, m)
		if size += len(m) + BatchRoom; len(all) > size {
			t.Errorf("%d bytes, more than the %d that were said", len(all), size)
		}
	}
	if got := slices.Collect(Messages(all)); !slices.EqualFunc(got, messages, bytes.Equal) {
		t.Errorf("%.20q", got)
	}
	for _, m := range messages[:2] {
		if got := slices.Collect(Messages(m)); len(got) != 1 || !bytes.Equal(got[0], m) {
			t.Errorf("%q is %q", m, got)
		}
	}
}

// FuzzMessages reads arbitrary batches. An invalid one ends with an empty message, and the messages before it fit in
// the batch.
func FuzzMessages(f *testing.F) {
	whole := AppendToBatch(AppendToBatch(nil, []byte("{}\n")), []byte(strings.Repeat("y", 300)))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte("\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x05\x00\x01\x02\x03\x04"))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, m []byte) {
		size := 0
		for one := range Messages(m) {
			if size += len(one); size > len(m) {
				t.Fatalf("%q has more than its own bytes", m)
			}
			if _, _, err := Decode(one); len(m) > 0 && m[0] == 0 && len(one) > 0 && one[0] == 0 && err == nil {
				t.Fatalf("%q holds a batch that is read", m)
			}
		}
	})
}
