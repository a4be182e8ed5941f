package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// begin opens a log in a new directory.
func begin(t testing.TB, o Options) (*Log, string) {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "state", "audit.jsonl")
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l, o.Path
}

func end(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func add(t testing.TB, l *Log, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		err := l.Append(t.Context(), Record{Method: "tools/call", Tool: fmt.Sprintf("tool_%d", i), Outcome: OK})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func verify(t testing.TB, path string) (Report, error) {
	t.Helper()
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	return Verify(files...)
}

func read(t testing.TB, path string, q Query) (records []Record) {
	t.Helper()
	for r, err := range Read(t.Context(), path, q) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func tools(records []Record) string {
	var names []string
	for _, r := range records {
		names = append(names, strings.TrimPrefix(r.Tool, "tool_"))
	}
	return strings.Join(names, " ")
}

func TestChainGoesOnAfterReopening(t *testing.T) {
	l, path := begin(t, Options{})
	add(t, l, 1, 3)
	end(t, l)
	l, _ = begin(t, Options{Path: path})
	add(t, l, 4, 5)
	end(t, l)
	report, err := verify(t, path)
	if err != nil || report.Records != 6 || report.First != 1 || report.Last != 6 || report.Torn != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if got := tools(read(t, path, Query{})); got != "1 2 3 4 5" {
		t.Errorf("read %s", got)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestRotation(t *testing.T) {
	l, path := begin(t, Options{MaxSize: 1, Keep: 2}) // the minimum: 64 KiB
	add(t, l, 1, 2000)
	end(t, l)
	files, err := Files(path)
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		if info, _ := os.Stat(file); info.Size() > minMaxSize+1<<10 {
			t.Errorf("%s has %d bytes", file, info.Size())
		}
	}
	report, err := Verify(files...)
	if err != nil || report.First == 1 || report.Last <= 2000 {
		t.Errorf("%+v, %v", report, err)
	}
	if records := read(t, path, Query{Last: 1}); tools(records) != "2000" {
		t.Errorf("last is %+v", records)
	}
	l, _ = begin(t, Options{Path: path, MaxSize: 1})
	add(t, l, 1, 600)
	end(t, l)
	if files, _ := Files(path); len(files) != 1 {
		t.Errorf("keeping none keeps %q", files)
	}
}

// TestRotationThatWasInterrupted opens a log whose file was renamed without a successor.
func TestRotationThatWasInterrupted(t *testing.T) {
	l, path := begin(t, Options{Keep: 1})
	add(t, l, 1, 2)
	end(t, l)
	if err := os.Rename(path, rotated(path, 1)); err != nil {
		t.Fatal(err)
	}
	l, _ = begin(t, Options{Path: path, Keep: 1})
	add(t, l, 3, 3)
	end(t, l)
	if report, err := verify(t, path); err != nil || report.Records != 5 || len(report.Files) != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	if records := read(t, path, Query{Notes: true}); records[3].Kind != KindHead ||
		records[3].After != "audit.jsonl.1" {
		t.Errorf("head %+v", records[3])
	}
}

func TestTornLineIsCutOffAndNoted(t *testing.T) {
	l, path := begin(t, Options{})
	add(t, l, 1, 2)
	end(t, l)
	whole, _ := os.ReadFile(path)
	for _, torn := range []string{`{"seq":4,"prev":"x`, "\x00\x00\x00", "{"} {
		if err := os.WriteFile(path, append(bytes.Clone(whole), torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		if report, err := verify(t, path); err != nil || report.Torn != len(torn) {
			t.Errorf("before: %+v, %v", report, err)
		}
		l, _ := begin(t, Options{Path: path})
		end(t, l)
		records := read(t, path, Query{Notes: true})
		if last := records[len(records)-1]; last.Kind != KindRecovered || last.Torn != torn {
			t.Errorf("%q: %+v", torn, last)
		}
		if report, err := verify(t, path); err != nil || report.Torn != 0 || report.Last != 4 {
			t.Errorf("after: %+v, %v", report, err)
		}
	}
}

func TestDamagedEndIsRefused(t *testing.T) {
	l, path := begin(t, Options{})
	add(t, l, 1, 2)
	end(t, l)
	whole, _ := os.ReadFile(path)
	if err := os.WriteFile(path, bytes.Replace(whole, []byte("tool_2"), []byte("tool_3"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "keep that file elsewhere") {
		t.Error(err)
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	l, path := begin(t, Options{})
	if _, err := Open(Options{Path: path}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("by process %d:", os.Getpid())) {
		t.Error(err)
	}
	end(t, l)
	l, _ = begin(t, Options{Path: path})
	end(t, l)
	if err := l.Append(t.Context(), Record{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestVerifyFindsTampering changes a log of 12 lines in several ways.
func TestVerifyFindsTampering(t *testing.T) {
	l, path := begin(t, Options{})
	add(t, l, 1, 11)
	end(t, l)
	whole, _ := os.ReadFile(path)
	lines := bytes.SplitAfter(whole, []byte("\n"))[:12]
	join := func(parts ...[][]byte) []byte {
		var all []byte
		for _, p := range parts {
			all = append(all, bytes.Join(p, nil)...)
		}
		return all
	}
	forged, _ := seal(nil, []byte(`{"tool":"other"}`), 6, string(bytes.Split(lines[5], []byte(`"`))[5]))
	for name, tt := range map[string]struct {
		log  []byte
		line int
		says string
	}{
		"untouched": {whole, 0, ""},
		"edited":    {bytes.Replace(whole, []byte("tool_4"), []byte("tool_x"), 1), 5, "not as it was written"},
		"edited at the end": {bytes.Replace(whole, []byte("tool_11"), []byte("tool_xx"), 1), 12,
			"not as it was written"},
		"deleted":           {join(lines[:4], lines[5:]), 5, "records 5 to 5 before it are missing"},
		"many deleted":      {join(lines[:4], lines[9:]), 5, "records 5 to 9 before it are missing"},
		"put in twice":      {join(lines[:4], lines[3:]), 5, "record 4 stands where 5 belongs"},
		"moved":             {join(lines[:4], lines[5:6], lines[4:5], lines[6:]), 5, "records 5 to 5"},
		"replaced":          {join(lines[:5], [][]byte{forged}, lines[6:]), 7, "record 7 does not follow"},
		"cut in the middle": {join(lines[:4], [][]byte{lines[4][:20]}, lines[5:]), 5, "not as it was written"},
		"a blank line":      {join(lines[:4], [][]byte{[]byte("\n")}, lines[4:]), 5, "not as it was written"},
		"a beginning forged": {join([][]byte{mustSeal(1, "00")}, lines[1:]), 1,
			"the first record of all follows another"},
		"the beginning gone": {join(lines[3:]), 0, ""},
		"the end gone":       {join(lines[:8]), 0, ""}, // only an earlier report shows this
		"a line without end": {append(bytes.Clone(whole), bytes.Repeat([]byte("x"), maxLine+1)...), 13, "far too long"},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, tt.log, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Verify(file)
		broken, _ := errors.AsType[*Broken](err)
		switch {
		case tt.line == 0 && err != nil, tt.line > 0 && broken == nil:
			t.Errorf("%s: %v", name, err)
		case broken != nil && (broken.Line != tt.line || !strings.Contains(broken.Error(), tt.says) ||
			!strings.HasPrefix(broken.Error(), fmt.Sprintf("%s:%d: ", file, tt.line))):
			t.Errorf("%s: %v, want line %d: %s", name, err, tt.line, tt.says)
		case name == "the end gone" && report.Last != 8:
			t.Errorf("%s: %+v", name, report)
		}
	}
}

func mustSeal(seq uint64, prev string) []byte {
	line, _ := seal(nil, []byte(`{"tool":"other"}`), seq, prev)
	return line
}

func TestVerifyAcrossFiles(t *testing.T) {
	l, path := begin(t, Options{MaxSize: 1, Keep: 9})
	add(t, l, 1, 1000)
	end(t, l)
	files, _ := Files(path)
	if len(files) < 3 {
		t.Fatal(files)
	}
	if _, err := Verify(files[0], files[2]); err == nil ||
		!strings.HasPrefix(err.Error(), files[2]+":1: the records ") {
		t.Errorf("a file is missing: %v", err)
	}
	text, _ := os.ReadFile(files[0])
	if err := os.WriteFile(files[0], text[:len(text)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(files...); err == nil || !strings.Contains(err.Error(), "another file follows") {
		t.Errorf("a file is cut off: %v", err)
	}
}

// TestFullDisk makes rotation fail for a while.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, path := begin(t, Options{MaxSize: 1, Keep: 1})
		if err := os.MkdirAll(filepath.Join(rotated(path, 1), "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for i := range 400 {
			err := l.Append(t.Context(), Record{Tool: fmt.Sprintf("tool_%d", i), Error: strings.Repeat("x", 300)})
			if err != nil {
				failed++
			}
			synctest.Wait()
		}
		if failed == 0 || l.Err() == nil {
			t.Fatalf("%d failed, health %v", failed, l.Err())
		}
		if _, err := l.Decide(t.Context(), governance.Request, &governance.Exchange{Method: "tools/call"}); err == nil {
			t.Error("requests pass while nothing can be recorded")
		}
		if err := os.RemoveAll(rotated(path, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retry) // synctest time
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Errorf("it can be written again: %v", err)
		}
		end(t, l)
		if _, err := verify(t, path); err != nil {
			t.Error(err)
		}
		if records := read(t, path, Query{}); records[len(records)-1].Tool != "tool_399" {
			t.Errorf("the last is %+v", records[len(records)-1])
		}
	})
}

// TestBufferIsBounded counts the records that are lost while writing fails.
func TestBufferIsBounded(t *testing.T) {
	l, path := begin(t, Options{MaxSize: 1, Keep: 1})
	obstruct(t, path)
	big := Record{Error: strings.Repeat("x", 100<<10)}
	for range 3 * maxPending / len(big.Error) {
		_ = l.Append(t.Context(), big)
	}
	l.mu.Lock()
	if len(l.pending) > maxPending || l.lost == 0 {
		t.Errorf("%d bytes pending, %d lost", len(l.pending), l.lost)
	}
	l.mu.Unlock()
	if err := l.Close(context.Background()); err == nil {
		t.Error("the loss of records is no error")
	}
}

// obstruct keeps the log at path from being rotated.
func obstruct(t *testing.T, path string) (obstacle string) {
	t.Helper()
	obstacle = rotated(path, 1)
	if err := os.MkdirAll(filepath.Join(obstacle, "not empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	return obstacle
}

// TestNextRequestTriesAgain: once the log can be written, the next request passes and does not
// wait for the writer's clock.
func TestNextRequestTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, path := begin(t, Options{MaxSize: 1, Keep: 1})
		_ = l.Append(t.Context(), Record{Error: strings.Repeat("x", 100<<10)}) // the next one needs another file
		synctest.Wait()
		obstacle := obstruct(t, path)
		_ = l.Append(t.Context(), Record{Tool: "late"})
		synctest.Wait()
		request := func() error {
			_, err := l.Decide(t.Context(), governance.Request, &governance.Exchange{})
			return err
		}
		if err := request(); err == nil {
			t.Fatal("a request passes though the log cannot be written: the test tests nothing")
		}
		if err := os.RemoveAll(obstacle); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := request(); err != nil || time.Since(began) > 0 {
			t.Errorf("the first request after that waits %v: %v", time.Since(began), err)
		}
		end(t, l)
	})
}

func TestManyWriters(t *testing.T) {
	l, path := begin(t, Options{MaxSize: 1, Keep: 100})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { add(t, l, 1, 200) })
	}
	wg.Wait()
	end(t, l)
	if report, err := verify(t, path); err != nil || report.Records != 3200+uint64(len(report.Files)) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestDecideRecordsHowItEnded(t *testing.T) {
	l, path := begin(t, Options{})
	secret := "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	began := time.Now().Add(-time.Second)
	call := func(x governance.Exchange) governance.Exchange {
		x.ID, x.Method, x.Caller, x.Session, x.Extension, x.Tool, x.ToChild = "d1", "tools/call", "ann", "s1", "files",
			"ext_files_read", true
		x.Request = json.RawMessage(`{"name":"ext_files_read","arguments":{"token":"` + secret + `","n":1e2}}`)
		return x
	}
	long := `{"content":[{"type":"text","text":"` + strings.Repeat("a", maxCopy-40) + secret + strings.Repeat("b",
		9000) + `"}]}`
	for _, x := range []governance.Exchange{
		call(governance.Exchange{Response: json.RawMessage(`{"content":[]}`), Began: began, Replayed: true}),
		call(governance.Exchange{
			Failure: protocol.Errorf(protocol.Rejected, "no: %s", secret),
			Verdict: governance.Verdict{Action: governance.Deny, Policy: "p", Code: "c"},
		}),
		call(governance.Exchange{Failure: protocol.Errorf(protocol.ChildExited, "gone")}),
		call(governance.Exchange{
			Response: json.RawMessage(`{"content":[],"isError":true}`),
			Verdict:  governance.Verdict{Action: governance.Ask, Policy: "q", By: "bob"},
		}),
		call(governance.Exchange{
			Response: json.RawMessage(`{"content":[]}`),
			Verdict:  governance.Verdict{Action: governance.Respond, Policy: "q"},
		}),
		call(governance.Exchange{Response: json.RawMessage(long)}),
		call(governance.Exchange{Response: json.RawMessage("{\r\n \"content\": []\n}")}),
	} {
		if d, err := l.Decide(t.Context(), governance.Request, &x); err != nil || d.Action != governance.Allow {
			t.Error(d, err)
		}
		if d, err := l.Decide(t.Context(), governance.Response, &x); err != nil || d.Action != governance.Allow {
			t.Error(d, err)
		}
	}
	_, err := l.Decide(t.Context(), governance.Request,
		&governance.Exchange{Method: "notifications/message", Notify: true})
	if err != nil {
		t.Error(err)
	}
	end(t, l)
	text, _ := os.ReadFile(path)
	if bytes.Contains(text, []byte(secret[:12])) {
		t.Errorf("the secret is in the log: %s", text)
	}
	records := read(t, path, Query{})
	var outcomes []string
	for _, r := range records {
		outcomes = append(outcomes, string(r.Outcome))
	}
	if got := strings.Join(outcomes, " "); got != "ok denied failed tool_error answered ok ok ok" {
		t.Error(got)
	}
	first, denied, cut := records[0], records[1], records[5]
	if first.ID != "d1" || first.Duration < 1000 || !first.Replayed || !first.Time.Equal(began) ||
		first.Direction != "to_extension" || first.Response.Bytes != 14 ||
		string(first.Request.JSON) !=
			`{"name":"ext_files_read","arguments":{"token":"[redacted:github-pat]","n":1e2}}` ||
		len(first.Request.SHA256) != 64 {
		t.Errorf("%+v", first)
	}
	if denied.Failure != "rejected" || denied.Policy != "p" || denied.Code != "c" ||
		denied.Error != "no: [redacted:github-pat]" {
		t.Errorf("%+v", denied)
	}
	if records[3].ApprovedBy != "bob" || len(cut.Response.Cut) > maxCopy || cut.Response.JSON != nil ||
		cut.Response.Bytes != len(long) {
		t.Errorf("%+v", cut)
	}
}

// TestPipelineRecords runs exchanges through a pipeline, one of them denied, and checks
// that requests are denied while recording fails.
func TestPipelineRecords(t *testing.T) {
	l, path := begin(t, Options{})
	p := governance.NewPipeline(governance.Options{},
		governance.Member{
			Spec:   governance.Spec{Name: "gate", Category: governance.Authorization},
			Policy: gate{},
		},
		governance.Member{Spec: governance.Spec{Name: "audit", Category: governance.Audit}, Policy: l})
	sent := 0
	send := func(_ context.Context, x *governance.Exchange) error {
		sent++
		x.Response = json.RawMessage(`{"content":[]}`)
		return nil
	}
	call := func(tool string) error {
		return p.Govern(t.Context(),
			&governance.Exchange{Method: "tools/call", Tool: tool, ToChild: true, Request: json.RawMessage(`{}`)}, send)
	}
	if err := call("good"); err != nil {
		t.Error(err)
	}
	if err := call("bad"); protocol.KindOf(err) != protocol.Rejected {
		t.Error(err)
	}
	end(t, l)
	l.setErr(errors.New("no space"))
	if err := call("good"); protocol.KindOf(err) != protocol.GovernanceUnavailable || sent != 1 {
		t.Errorf("unrecorded: %v, sent %d times", err, sent)
	}
	records := read(t, path, Query{})
	if len(records) != 2 || records[0].Outcome != OK || records[0].ID == "" || records[0].Time.IsZero() ||
		records[1].Outcome != Denied || records[1].Policy != "gate" || records[1].Code != "unauthorized" {
		t.Errorf("%+v", records)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// gate denies the tool "bad".
type gate struct{}

func (gate) Decide(_ context.Context, _ governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if x.Tool == "bad" {
		return governance.Decision{Action: governance.Deny}, nil
	}
	return governance.Decision{}, nil
}

func TestQuery(t *testing.T) {
	l, path := begin(t, Options{})
	now := time.Now().UTC()
	for i, r := range []Record{
		{Tool: "tool_0", Caller: "cat", Method: MethodAnswer, Outcome: Denied, Time: now.Add(-time.Hour)},
		{Tool: "tool_1", Caller: "team/ann", Extension: "a", Outcome: OK, Time: now.Add(-time.Hour)},
		{Tool: "tool_2", Caller: "bob", Extension: "a", Outcome: Denied, Time: now},
		{
			Tool:      "tool_3",
			Caller:    "bob",
			Node:      "web",
			ID:        "d3",
			Origin:    "w3",
			Extension: "b",
			Outcome:   Failed,
			Time:      now,
		},
	} {
		if err := l.Append(t.Context(), r); err != nil {
			t.Fatal(i, err)
		}
	}
	end(t, l)
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{Node: "we?"}, "3"},
		{Query{Node: "?*"}, "3"},
		{Query{Node: "."}, "0 1 2"},
		{Query{Node: "*"}, "0 1 2 3"},
		{Query{ID: "d3"}, "3"},
		{Query{ID: "w3"}, "3"},
		{Query{ID: "w4"}, ""},
	} {
		if got := tools(read(t, path, tt.q)); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.q, got, tt.want)
		}
	}
	for want, q := range map[string]Query{
		"0 1 2 3": {},
		"2":       {Denied: true},
		"2 3":     {Since: now.Add(-time.Minute)},
		"1 2":     {Extension: "a"},
		"3":       {Last: 1},
		"1":       {Caller: "t*n"},
		"":        {Tool: "tool_9"},
	} {
		if got := tools(read(t, path, q)); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	for _, err := range Read(t.Context(), path, Query{Tool: "["}) {
		if err == nil || !strings.Contains(err.Error(), "not a glob") {
			t.Error(err)
		}
	}
	for _, err := range Read(t.Context(), path+"x", Query{}) {
		if err == nil || !strings.Contains(err.Error(), "there is no audit log") {
			t.Error(err)
		}
	}
}

// TestFollow reads while records are written and files rotated.
func TestFollow(t *testing.T) {
	l, path := begin(t, Options{MaxSize: 1, Keep: 100})
	add(t, l, 1, 1)
	end(t, l)
	l, _ = begin(t, Options{Path: path, MaxSize: 1, Keep: 100})
	defer end(t, l)
	next := 1
	for r, err := range Read(t.Context(), path, Query{Follow: true, Last: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("tool_%d", next); r.Tool != want {
			t.Fatalf("read %s, want %s", r.Tool, want)
		}
		if next++; next == 2 {
			add(t, l, 2, 1500)
		}
		if next > 1500 {
			break
		}
	}
}

// FuzzVerify checks that a change at any position is detected, unless a chain cannot show
// it, and that nothing panics.
func FuzzVerify(f *testing.F) {
	l, path := begin(f, Options{})
	add(f, l, 1, 5)
	end(f, l)
	whole, _ := os.ReadFile(path)
	f.Add(100, 3, []byte("x"))
	f.Add(0, len(whole), []byte(`{"seq":1,"hash":""}`+"\n"))
	f.Add(len(whole), 0, []byte("{"))
	f.Fuzz(func(t *testing.T, at, size int, put []byte) {
		at = min(max(0, at), len(whole))
		size = min(max(0, size), len(whole)-at)
		changed := append(append(bytes.Clone(whole[:at]), put...), whole[at+size:]...)
		var report Report
		_, err := report.verify("log", bytes.NewReader(changed))
		end := bytes.LastIndexByte(changed, '\n') + 1
		if err == nil && !bytes.HasPrefix(whole, changed[:end]) && !bytes.HasSuffix(whole, changed[:end]) {
			t.Errorf("%q put for %q is not found", put, whole[at:at+size])
		}
	})
}

// BenchmarkAppend records a call of 256 bytes each way: in bursts with time to sync after
// each, and continuously until all is on disk.
func BenchmarkAppend(b *testing.B) {
	payload := json.RawMessage(`{"name":"t","arguments":{"text":"` + strings.Repeat("lorem ipsum ", 18) + `"}}`)
	x := governance.Exchange{
		ID:        "01h",
		Method:    "tools/call",
		Caller:    "ann",
		Session:   "s",
		Extension: "files",
		Tool:      "ext_files_read",
		ToChild:   true,
		Request:   payload,
		Response:  payload,
		Began:     time.Now(),
	}
	for name, burst := range map[string]int{"burst": 1000, "sustained": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			l, path := begin(b, Options{Keep: 1})
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if _, err := l.Decide(b.Context(), governance.Request, &x); err != nil {
					b.Fatal(err)
				}
				if _, err := l.Decide(b.Context(), governance.Response, &x); err != nil {
					b.Fatal(err)
				}
				if n == burst {
					b.StopTimer()
					end(b, l)
					l, _ = begin(b, Options{Path: path, Keep: 1})
					n = 0
					b.StartTimer()
				}
			}
			end(b, l)
		})
	}
}
