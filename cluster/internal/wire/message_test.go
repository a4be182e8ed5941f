package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/rawjson"
)

const someRun = `"run":"aaaaaaaaaa"`

// heads returns heads of this version, of others, and invalid ones.
func heads() []string {
	return []string{
		`{"k":"call",` + someRun +
			`,"n":41,"ext":"search","m":"tools/call","notify":true,"quiet":true,"digest":"9f3c","session":{"id":"s","caller":"alice","instance":"i","era":"2025-11-25","caps":{"sampling":{}},"client":{"name":"c","n":[1,2.5e3]}},"left_ms":29870,"trace":"00-a","origin":"d-7f21"}`,
		`{"k":"pulse",` + someRun + `,"low":18446744073709551615,"open":[1,2,3],"done":[],"strange":null,"spent":[0]}`,
		`{"k":"part",` + someRun + `,"body":7,"size":9,"at":4,"bytes":-5}`,
		`{"k":"lost",` + someRun +
			`,"hash":"h","clock":-1,"seq":3,"node":"n","of":"o","names":["a","\ud800\n"],"last":true,"id":1,"error":false}`,
		` { "k" : "tell" , ` + someRun + ` , "later" : {"k":[{"n":1}]} , "n" : 1 } `,
		`{"k":"tell",` + someRun +
			`,"n":1,"n":2,"session":{"id":"a","caller":"x"},"session":{"id":"b"},"open":[1,2],"open":[3]}`,
		`{"K":"tell","RUN":"aaaaaaaaaa","N":3,"ſession":{"ID":"x"}}`,
		`{"k":"tell",` + someRun + `,"n":-1}`,
		`{"k":"tell",` + someRun + `,"n":1.0}`,
		`{"k":"tell",` + someRun + `,"n":18446744073709551616}`,
		`{"k":"tell",` + someRun + `,"n":null,"notify":null,"session":null,"m":null}`,
		`{"k":"tell",` + someRun + `,"session":[]}`,
		`{"k":"t\u0065ll",` + someRun + `,"\u006e":5,"m":"\ud83d\ude00 \/ ` + "\xff\xc3" + `"}`,
		`{"k":"tell","run":"short"}`,
		`{"k":"tell",` + someRun + `,"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
		`{"k":"tell",` + someRun + `,"x":` + strings.Repeat("[", 6000),
		`{"k":"tell",` + someRun + `,"x":"` + strings.Repeat("x", MaxHead) + `"}`,
		`[]`, `null`, `{}`, ``, "{\"k\":\"tell\",\x00}",
	}
}

// Decode accepts any input and agrees with encoding/json. A decoded head stays the same when it is encoded
// again.
func FuzzDecode(f *testing.F) {
	for _, h := range heads() {
		f.Add([]byte(h + "\nbody\nof lines"))
		f.Add([]byte(h))
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		line, rest, isLine := bytes.Cut(m, []byte{'\n'})
		h, body, err := Decode(m)
		if err == nil && (!isLine || len(line) > MaxHead || !bytes.Equal(body, rest)) {
			t.Fatalf("%q was taken as the head", m[:len(m)-len(body)])
		}
		if isLine && len(line) <= MaxHead && plain(line) {
			want := new(Head)
			fault := json.Unmarshal(line, want)
			switch taken := fault == nil && want.Kind != "" && IsRun(want.Run); {
			case taken != (err == nil):
				t.Fatalf("%q: %v, but encoding/json: %v", line, err, fault)
			case taken && !bytes.Equal(compact(t, h), compact(t, want)):
				t.Fatalf("%q is %s, but for encoding/json %s", line, compact(t, h), compact(t, want))
			}
		}
		if err != nil {
			return
		}
		again, err := Encode(h, body)
		if err != nil { // escapes may make the head longer
			return
		}
		second, sameBody, err := Decode(again)
		if err != nil || !bytes.Equal(compact(t, h), compact(t, second)) || !bytes.Equal(body, sameBody) {
			t.Errorf("%q, and encoded %q: %v", line, again, err)
		}
	})
}

// plain reports whether encoding/json reads a head as this package does: encoding/json ignores the case of names, and
// merges repeated members and nulls.
func plain(object []byte) bool {
	if rawjson.Check(object) != nil || !rawjson.IsObject(object) {
		return false
	}
	known := make(map[string]bool)
	for key, v := range rawjson.Members(object) {
		if known[key] || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" || string(v) == "null" ||
			key == "session" && rawjson.IsObject(v) && !plain(v) {
			return false
		}
		known[key] = true
	}
	return true
}

func compact(t *testing.T, h *Head) []byte {
	t.Helper()
	out, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A later version may send members that are unknown to this one.
func TestUnknownMembers(t *testing.T) {
	h, body, err := Decode([]byte(`{"k":"tell","later":[{"k":"x"},1],` + someRun + `,"n":3}` + "\n{}"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Head{Kind: Tell, Run: "aaaaaaaaaa", N: 3}, h); diff != "" || string(body) != "{}" {
		t.Errorf("%s%s", diff, body)
	}
}

// BenchmarkHead encodes and decodes a call of a session.
func BenchmarkHead(b *testing.B) {
	h, body, err := Decode([]byte(heads()[0] + "\n{}"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m, err := Encode(h, body)
		if err == nil {
			_, _, err = Decode(m)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
