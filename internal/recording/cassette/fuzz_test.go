package cassette

import (
	"bytes"
	"testing"
)

// FuzzReader checks that each record survives being written and read again.
func FuzzReader(f *testing.F) {
	f.Add([]byte(header + `{"at":1,"run":1,"of":3,"sent":{"id":1}}` + "\n" +
		`{"at":2,"closed":{"reason":"x","records":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data), 1<<20)
		for err == nil {
			var n Record
			if n, err = r.Next(); err != nil {
				continue
			}
			line, wrong := Append(nil, &n)
			if wrong != nil {
				t.Fatalf("%+v: %v", n, wrong)
			}
			again, wrong := parse(bytes.TrimSuffix(line, []byte("\n")))
			if wrong != nil || again.At != n.At || again.Run != n.Run || again.Kind != n.Kind ||
				!bytes.Equal(again.Payload, n.Payload) {
				t.Fatalf("%s: %+v, before %+v, %v", line, again, n, wrong)
			}
		}
	})
}
