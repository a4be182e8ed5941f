package audit

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRecordIsWrittenAsJSONWouldBe compares the line of a record, with all fields set and
// with none, with encoding/json, and decodes it.
func TestRecordIsWrittenAsJSONWouldBe(t *testing.T) {
	full := Record{Time: time.Date(2026, 11, 21, 1, 2, 3, 40500, time.UTC)}
	for i := range reflect.TypeFor[Record]().NumField() {
		one := Record{Time: full.Time}
		for _, r := range []*Record{&one, &full} {
			switch f := reflect.ValueOf(r).Elem().Field(i); f.Kind() {
			case reflect.String:
				f.SetString("a \"quoted\"\\ \u2028 line\nof <text> & \x00\x7f é \U0001F600")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int:
				f.SetInt(math.MaxInt)
			case reflect.Float64:
				f.SetFloat(12345.678)
			default:
				if p, ok := f.Addr().Interface().(*Payload); ok {
					*p = Payload{
						Bytes:  9,
						SHA256: "ab",
						JSON:   json.RawMessage(`{"a":12345678901234567890}`),
						Cut:    "x\"y",
					}
				}
			}
		}
		checkLine(t, one)
	}
	checkLine(t, Record{})
	checkLine(t, full)
}

// FuzzRecord compares the lines of records with arbitrary strings with encoding/json.
func FuzzRecord(f *testing.F) {
	f.Add("ext_files_read", "it\n\"said\"", 1.5, int64(1))
	f.Add("\xff\xed\xa0\x80", "\u2028</script>", 1e-3, int64(-1))
	f.Fuzz(func(t *testing.T, tool, words string, ms float64, nanos int64) {
		if math.IsNaN(ms) || math.IsInf(ms, 0) {
			t.Skip("no duration")
		}
		checkLine(t, Record{
			Time:     time.Unix(0, nanos).UTC(),
			Tool:     tool,
			Error:    words,
			Torn:     words,
			Duration: ms,
			Notify:   nanos > 0,
			Request:  Payload{Bytes: len(words), SHA256: "ab", Cut: words},
		})
	})
}

// checkLine seals r, parses the line and compares it with r.
func checkLine(t *testing.T, r Record) {
	t.Helper()
	r.Seq, r.Prev, r.Hash = 0, "", ""
	line, hash := seal(nil, r.append(nil), 7, "abc")
	if _, ok := parseLink(line[:len(line)-1]); !ok {
		t.Fatalf("not as it was written: %s", line)
	}
	want, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got, sent Record
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if err := json.Unmarshal(want, &sent); err != nil {
		t.Fatal(err)
	}
	sent.Seq, sent.Prev, sent.Hash = 7, "abc", hash
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("%s\n%s", line, diff)
	}
}
