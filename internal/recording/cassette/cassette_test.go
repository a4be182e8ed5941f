package cassette

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/rawjson"
)

const header = `{"cassette":1,"host":"1.0","begun":"2026-01-02T03:04:05Z"}` + "\n"

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	offer := &Offer{
		Protocol:     "mcp",
		Version:      "2025-11-25",
		ServerInfo:   []byte(`{"name": "<a> & b"}`),
		Instructions: "a\nb",
		Tools:        []json.RawMessage{[]byte(`{"name":"a","big":12345678901234567890}`)},
		Hooks:        []string{"pre_tool"},
	}
	records := []Record{
		{
			At:      7 * time.Microsecond,
			Run:     1,
			Kind:    KindStart,
			Payload: Encode(Start{Extension: "notes", Transport: "stdio", Protocol: "mcp", PID: 4}),
		},
		{At: time.Second, Run: 1, Kind: KindOffer, Payload: offer.Encode()},
		{
			At:      time.Second,
			Run:     1,
			Kind:    KindSent,
			Payload: []byte(`{"id":1,"method":"x","params":{"n":1.0e2,"s":"<\u003c>"}}`),
		},
		{
			At:      time.Second,
			Run:     1,
			Kind:    KindReceived,
			Of:      []byte(`1`),
			Payload: []byte(`{"id":1,"result":{"at":1,"run":2}}`),
		},
		{At: time.Second, Run: 1, Kind: KindNoise, Payload: []byte(`"hello"`)},
		{At: 2 * time.Second, Run: 1, Kind: KindEnd, Payload: Encode(End{Kind: "child_exited", Message: "gone"})},
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, "1.0", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Add(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(3*time.Second, "done"); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&out, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []Record
	for {
		n, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	want := append(records, Record{
		At:      3 * time.Second,
		Kind:    KindClosed,
		Payload: []byte(`{"reason":"done","records":6}`),
	})
	if diff := cmp.Diff(want, got); diff != "" || !r.Complete {
		t.Errorf("complete %v\n%s", r.Complete, diff)
	}
	back, err := DecodeOffer(got[1].Payload)
	if diff := cmp.Diff(offer, back); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestAFrameOfSeveralLinesBecomesOne(t *testing.T) {
	line, err := Append(nil, &Record{Run: 1, Kind: KindReceived, Payload: []byte("{\n  \"a\": \"x y\"\n}\n")})
	if err != nil || string(line) != `{"at":0,"run":1,"received":{"a":"x y"}}`+"\n" {
		t.Errorf("%s %v", line, err)
	}
}

func TestFaultsNameTheLine(t *testing.T) {
	const start = `{"at":1,"run":1,"start":{}}` + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"empty":           {"", "line 1: the file is empty"},
		"another format":  {"{}\n", "line 1: it is no cassette of a version that this program reads"},
		"a later version": {`{"cassette":2}` + "\n", "line 1: it is no cassette of a version that this program reads"},
		"no JSON":         {header + start + "x\n", "line 3: invalid JSON"},
		"no object":       {header + "[]\n", "line 2: not a JSON object"},
		"no time":         {header + `{"run":1,"start":{}}` + "\n", "line 2: it lacks at, the time"},
		"a wrong time":    {header + `{"at":-1,"run":1,"start":{}}` + "\n", "line 2: at is no number of microseconds"},
		"no run":          {header + `{"at":1,"start":{}}` + "\n", "line 2: it lacks run, the run that it belongs to"},
		"a wrong run":     {header + `{"at":1,"run":0,"start":{}}` + "\n", "line 2: run is no number from 1 on"},
		"two payloads": {header + `{"at":1,"run":1,"start":{},"end":{}}` + "\n",
			"line 2: it has both start and end"},
		"no payload": {header + `{"at":1,"run":1,"new":{}}` + "\n",
			"line 2: it has no payload that this version knows"},
		"no frame": {header + `{"at":1,"run":1,"sent":4}` + "\n", "line 2: sent is no frame"},
		"after the end": {header + `{"at":1,"closed":{}}` + "\n" + start,
			"line 3: the cassette goes on after its end"},
		"too long": {header + strings.Repeat("x", 1000), "line 2: the cassette is longer than its reader takes"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewReader(strings.NewReader(test.text), 900)
			for err == nil {
				_, err = r.Next()
			}
			if !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T", err)
			}
		})
	}
}

func TestALineIsBounded(t *testing.T) {
	r, err := NewReader(io.MultiReader(strings.NewReader(header), io.LimitReader(endless{}, 1<<40)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, ErrLong) {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestACutOffCassetteIsReadUpToItsLastLine(t *testing.T) {
	r, err := NewReader(strings.NewReader(header+`{"at":1,"run":1,"start":{}}`+"\n"+`{"at":1,"ru`), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Complete {
		t.Error(err, r.Complete)
	}
}

func TestTheWriterKeepsItsBoundAndItsEnd(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, "1.0", time.Now(), 4<<10)
	if err != nil {
		t.Fatal(err)
	}
	n := Record{Run: 1, Kind: KindReceived, Payload: []byte(`{"x":"` + strings.Repeat("y", 100) + `"}`)}
	added := 0
	for err == nil {
		if err = w.Add(&n); err == nil {
			added++
		}
	}
	if !errors.Is(err, ErrFull) || w.Close(time.Second, ErrFull.Error()) != nil || out.Len() > 4<<10 {
		t.Error(err, out.Len())
	}
	if !strings.HasSuffix(out.String(),
		fmt.Sprintf(`"closed":{"reason":"the bound of the recording is reached","records":%d}}`+"\n", added)) {
		t.Error(out.String()[out.Len()-200:])
	}
}

func TestAFileIsPrivateAndReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "other")
	f, replaced, err := Create(path, false)
	if err != nil || replaced {
		t.Fatal(err)
	}
	f.Close()
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	if _, _, err := Create(path, false); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	if f, replaced, err := Create(path, true); err != nil || !replaced {
		t.Error(err, replaced)
	} else {
		f.Close()
	}
	if err := os.WriteFile(other, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(other, link); err != nil {
		t.Skip(err)
	}
	for _, replace := range []bool{false, true} {
		if _, _, err := Create(link, replace); err == nil {
			t.Error("a link was followed")
		}
	}
	if text, _ := os.ReadFile(other); string(text) != "kept" {
		t.Errorf("%q", text)
	}
}

// TestFramesAsDeepAsFramesMayBe writes and reads frames of the deepest nesting that the host accepts.
func TestFramesAsDeepAsFramesMayBe(t *testing.T) {
	deep := func(n int) json.RawMessage {
		return json.RawMessage(`{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", n-1) + strings.Repeat("]",
			n-1) + `}`)
	}
	for depth, want := range map[int]error{rawjson.MaxDepth: nil, rawjson.MaxDepth + 1: rawjson.ErrDepth} {
		line, err := Append(nil, &Record{Run: 1, Kind: KindReceived, Of: json.RawMessage("7"), Payload: deep(depth)})
		if !errors.Is(err, want) {
			t.Fatal(depth, err)
		}
		if err != nil {
			line = append(append([]byte(`{"at":1,"run":1,"received":`), deep(depth)...), "}\n"...)
		}
		r, err := parse(line[:len(line)-1])
		if !errors.Is(err, want) || err == nil && string(r.Payload) != string(deep(depth)) {
			t.Errorf("nested %d deep: %v", depth, err)
		}
	}
	for _, broken := range []string{
		`{"at":1,,"run":1,"received":`,
		`{"at":1,"run":1 "received":`,
		`{"at":1,"received":1,"run":`,
	} {
		if _, err := parse([]byte(broken + string(deep(rawjson.MaxDepth)) + "}")); err == nil {
			t.Error(broken)
		}
	}
}
