package player

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

const head = `{"cassette":1,"host":"1","begun":"2026-01-02T03:04:05Z"}
{"at":0,"run":1,"start":{"extension":"x","transport":"stdio","protocol":"native"}}
{"at":1,"run":1,"offer":{"protocol":"native","tools":[{"name":"add"}]}}
`

// tape writes a cassette and opens it. text holds records without "at"; each line is 100 ms after the one before.
func tape(t *testing.T, text string, o Options) *Tape {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(head)
	at := 100_000
	for line := range strings.Lines(strings.TrimSpace(text)) {
		b.WriteString(strings.Replace(line, "{", `{"at":`+json.Number(itoa(at)).String()+`,"run":1,`, 1))
		at += 100_000
	}
	o.File = filepath.Join(t.TempDir(), "x.cassette")
	if err := os.WriteFile(o.File, append(b.Bytes(), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	tape, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return tape
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// connect plays a tape to a connection, which receives the notifications of calls.
func connect(t *testing.T, tape *Tape) (c *jsonrpc.Conn, ended <-chan error) {
	t.Helper()
	p, err := tape.Play(false)
	if err != nil {
		t.Fatal(err)
	}
	c = jsonrpc.NewConn(p, jsonrpc.Options{
		FirstID: 70,
		Token:   func(m *jsonrpc.Message) string { return string(progressToken(m)) },
		Loose:   func(*jsonrpc.Message) bool { return true },
	})
	end := make(chan error, 1)
	go func() { end <- c.Serve(context.Background()) }()
	t.Cleanup(func() { c.Close(); <-p.work.Close() })
	return c, end
}

func ask(c *jsonrpc.Conn, params string) string {
	raw, err := c.Call(context.Background(), "tools/call", json.RawMessage(params), nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(raw)
}

const adds = `{"sent":{"id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":"x"},"_meta":{"progressToken":"t1"}}}}
{"received":{"jsonrpc":"2.0","id":1,"result":"first"}}
{"sent":{"id":2,"method":"tools/call","params":{"name":"add","arguments":{"b":"x","a":1}}}}
{"received":{"jsonrpc":"2.0","id":2,"result":"second"}}
{"sent":{"id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":"long words"}}}}
{"received":{"jsonrpc":"2.0","id":3,"result":"third"}}
{"sent":{"id":4,"method":"tools/call","params":{"name":"login","arguments":{"key":"***","token":"a [redacted:jwt] b"}}}}
{"received":{"jsonrpc":"2.0","id":4,"result":"masked"}}
`

func TestEqualCallsAreAnsweredInOrder(t *testing.T) {
	c, _ := connect(t, tape(t, adds, Options{}))
	for _, test := range []struct{ params, want string }{
		{`{"name":"add","arguments":{"a":1,"b":"x"}}`, `"first"`},
		{`{"arguments":{"b":"\u0078","a":1},"name":"add","_meta":{"progressToken":9}}`, `"second"`},
		{`{"name":"add","arguments":{"a":1,"b":"x"}}`,
			`error: add {"a":1,"b":"x"} was recorded 2 times, and is asked for once more; record more of them, or replay with match = "nearest"`},
		{`{"name":"add","arguments":{"a":2,"b":"lang words"}}`,
			`error: add {"a":2,"b":"lang words"} was not recorded; the nearest recorded call is add {"a":2,"b":"long words"}`},
		{`{"name":"sub","arguments":{"a":2}}`,
			`error: sub {"a":2} was not recorded; the nearest recorded call is add {"a":2,"b":"long words"}`},
		{`{"name":"login","arguments":{"key":"s\"ecret","token":"a eyJ b"}}`, `"masked"`},
	} {
		if got := ask(c, test.params); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.params, got, test.want)
		}
	}
	if _, err := c.Call(context.Background(), "prompts/get", json.RawMessage(`{"name":"p"}`), nil); err == nil ||
		!strings.Contains(err.Error(), `prompts/get {"name":"p"} was not recorded; nothing of that kind was recorded`) {
		t.Error(err)
	}
}

// TestATaskIsLookedAfterAsOftenAsWanted polls a task more often than the recording did.
func TestATaskIsLookedAfterAsOftenAsWanted(t *testing.T) {
	c, _ := connect(t, tape(t, `{"sent":{"id":1,"method":"tasks/get","params":{"taskId":"1"}}}
{"received":{"jsonrpc":"2.0","id":1,"result":"working"}}
{"sent":{"id":2,"method":"tasks/get","params":{"taskId":"1"}}}
{"received":{"jsonrpc":"2.0","id":2,"result":"completed"}}`, Options{}))
	for _, want := range []string{`"working"`, `"completed"`, `"completed"`} {
		if got, err := c.Call(t.Context(), "tasks/get", json.RawMessage(`{"taskId":"1"}`), nil); err != nil ||
			string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestNearestAnswersWithTheMostSimilar(t *testing.T) {
	c, _ := connect(t, tape(t, adds, Options{Nearest: true}))
	for _, test := range []struct{ params, want string }{
		{`{"name":"add","arguments":{"a":2,"b":"lang words"}}`, `"third"`},
		{`{"name":"add","arguments":{"a":2,"b":"lang words"}}`, `"third"`},
		{`{"name":"add","arguments":{"a":1,"b":"x"}}`, `"first"`},
		{`{"name":"add","arguments":{"a":1,"b":"y"}}`, `"second"`},
		{`{"name":"add","arguments":{"a":1,"b":"x"}}`, `"second"`},
		{`{"name":"sub","arguments":{}}`,
			`error: sub was not recorded; the nearest recorded call is add {"a":1,"b":"x"}`},
	} {
		if got := ask(c, test.params); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.params, got, test.want)
		}
	}
}

const talks = `{"sent":{"id":1,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"t1"}}}}
{"received":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":1}}}
{"received":{"jsonrpc":"2.0","id":"q9","method":"elicitation/create","params":{"message":"who?"}}}
{"sent":{"id":"q9","result":{"action":"accept"}}}
{"received":{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"so","_meta":{"progressToken":"t1"}}}}
{"received":{"jsonrpc":"2.0","id":1,"result":"done"}}
`

// TestWhatPassesDuringACall checks that progress, requests and log messages of a call arrive in order, with the
// ids of the live request.
func TestWhatPassesDuringACall(t *testing.T) {
	for _, real := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := connect(t, tape(t, talks, Options{Real: real}))
			var heard []string
			began := time.Now()
			raw, err := c.Call(context.Background(), "tools/call",
				json.RawMessage(`{"name":"ask","_meta":{"progressToken":42}}`), &jsonrpc.CallOptions{Token: "42",
					OnMessage: func(_ context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
						heard = append(heard, m.Method+" "+string(m.Params)+" "+time.Since(began).String())
						if m.ID != nil {
							time.Sleep(time.Minute) // a person answers later than in the recording
						}
						return json.RawMessage("{}"), nil
					}})
			times := []string{"0s", "0s", "1m0s"}
			if real {
				times = []string{"100ms", "200ms", "1m0.3s"} // the answer took as long as recorded
			}
			want := []string{`notifications/progress {"progressToken":42,"progress":1} ` + times[0],
				`elicitation/create {"message":"who?"} ` + times[1],
				`notifications/message {"data":"so","_meta":{"progressToken":42}} ` + times[2]}
			if diff := cmp.Diff(want, heard); diff != "" || string(raw) != `"done"` || err != nil {
				t.Error(string(raw), err, diff)
			}
			c.Close()
		})
	}
}

func TestADeathIsReplayedAtItsPlace(t *testing.T) {
	const text = `{"sent":{"id":1,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"t1"}}}}
{"received":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":1}}}
{"end":{"kind":"child_exited","message":"the process ended: exit status 3","evidence":{"exit_code":3}}}
`
	c, ended := connect(t, tape(t, text, Options{}))
	progressed := false
	_, err := c.Call(context.Background(), "tools/call", json.RawMessage(`{"name":"ask","_meta":{"progressToken":1}}`),
		&jsonrpc.CallOptions{Token: "1",
			OnMessage: func(context.Context, *jsonrpc.Message) (json.RawMessage, error) {
				progressed = true
				return nil, nil
			}})
	if !errors.Is(err, jsonrpc.ErrClosed) || !progressed {
		t.Error(err, progressed)
	}
	d, ok := errors.AsType[*Death](<-ended)
	if !ok || d.Kind != "child_exited" || *d.Evidence.ExitCode != 3 {
		t.Errorf("%+v", d)
	}
}

func TestACallWithoutAnAnswer(t *testing.T) {
	const text = `{"sent":{"id":1,"method":"tools/call","params":{"name":"cut"}}}
{"sent":{"id":2,"method":"tools/call","params":{"name":"canceled"}}}
{"sent":{"method":"notifications/cancelled","params":{"requestId":2}}}
`
	c, _ := connect(t, tape(t, text, Options{}))
	if got := ask(c, `{"name":"cut"}`); got != "error: the recording has no answer to this call" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, "tools/call", json.RawMessage(`{"name":"canceled"}`), nil)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestALiteExtensionIsReplayedAsANativeOne(t *testing.T) {
	text := strings.NewReplacer(`"protocol":"native","tools":[{"name":"add"}]`,
		`"protocol":"lite","tools":[{"name":"add"}],"tools_by_method":{"plus":"add"}`, `"native"`,
		`"lite"`).Replace(head) +
		`{"at":3,"run":1,"sent":{"id":1,"method":"plus","params":{"a":1}}}
{"at":4,"run":1,"received":{"id":1,"result":"two"}}
`
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tape, err := Open(Options{File: file})
	if err != nil || tape.Protocol() != "native" {
		t.Fatal(err)
	}
	c, _ := connect(t, tape)
	if got := ask(c, `{"name":"add","arguments":{"a":1}}`); got != `"two"` {
		t.Error(got)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two := head + `{"at":0,"run":2,"start":{"extension":"notes"}}` + "\n"
	for name, test := range map[string]struct {
		o    Options
		want string
	}{
		"no file":     {Options{File: filepath.Join(dir, "none")}, "no such file"},
		"a directory": {Options{File: dir}, "directory"},
		"broken":      {Options{File: write("broken", head+"x\n")}, "line 4: "},
		"empty": {Options{File: write("empty", head[:strings.IndexByte(head, '\n')+1])},
			"no extension was recorded in it"},
		"which": {Options{File: write("two", two)}, "it holds 2 extensions; state which: [x notes]"},
		"mistyped": {Options{File: write("two", two), Extension: "note"},
			`"note" was not recorded in it, did you mean "notes"?`},
		"another": {Options{File: write("two", two), Extension: "calendar"},
			`"calendar" was not recorded in it, but [x notes]`},
		"nameless run": {Options{File: write("nameless", head+`{"at":0,"run":2,"start":{}}`+"\n")},
			"run 2 begins without an extension"},
	} {
		if _, err := Open(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	tape, err := Open(Options{File: write("two", two), Extension: "notes"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tape.Play(false); err == nil ||
		!strings.Contains(err.Error(), "every run of notes in it ended before its handshake") {
		t.Error(err)
	}
}

func TestAMaskStandsForAnyText(t *testing.T) {
	many := strings.Repeat("*** ", 20_000)
	for _, test := range []struct {
		recorded, now string
		want          bool
	}{
		{`{"a":"***"}`, `{"a":"x\"y\\"}`, true},
		{`{"a":"***"}`, `{"a":-12.5e3}`, true},
		{`{"a":"***"}`, `{"a":""}`, true},
		{`{"a":"***"}`, `{"a":true}`, false},
		{`{"a":"***"}`, `{"a":["x"]}`, false},
		{`{"a":"***"}`, `{}`, false},
		{`{"a":"***","b":1}`, `{"a":"x","b":12}`, false},
		{`{"a":"***","b":1}`, `{"a":"x\",\"b","b":1}`, true},
		{`{"a":"Bearer ***"}`, `{"a":12}`, false},
		{`{"a":"Bearer ***"}`, `{"a":"Bearer x"}`, true},
		{`{"a":"Bearer ***"}`, `{"a":"bearer x"}`, false},
		{`{"a":"[redacted:jwt] and *** end"}`, `{"a":"x and and y end"}`, true},
		{`{"a":"[redacted:jwt] and *** end"}`, `{"a":"x and"}`, false},
		{`{"a":"ab***ba"}`, `{"a":"aba"}`, false},
		{`{"a":"x[redacted:jwt]"}`, `{"a":"[redacted:jwt]"}`, false},
		{`{"***":1}`, `{"key":1}`, true},
		{`["***","b"]`, `["a","b","c"]`, false},
		{`"` + many + `"`, `"` + strings.Repeat("s ", 20_000) + `"`, true},
		{`"` + many + `!"`, `"` + strings.Repeat("s ", 20_000) + `"`, false},
		{`{"a":1}`, `{"a":1.0}`, false},
	} {
		if got := Same(json.RawMessage(test.recorded), json.RawMessage(test.now)); got != test.want {
			t.Errorf("%.60s, now %.60s: %v", test.recorded, test.now, got)
		}
	}
}

// TestManyRequestsInFlight loads a run whose many requests are unanswered when it ends.
func TestManyRequestsInFlight(t *testing.T) {
	const n = 30_000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"sent":{"id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":%d},"_meta":{"progressToken":%d}}}}`+"\n", i, i, i)
	}
	for i := range n {
		fmt.Fprintf(&b, `{"received":{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d,"_meta":{"progressToken":%d}}}}`+"\n", i, i)
	}
	for i := range n {
		fmt.Fprintf(&b, `{"received":{"id":%d,"result":%d}}`+"\n", i, i)
	}
	calls, err := tape(t, b.String(), Options{}).Calls()
	if err != nil || len(calls) != n {
		t.Fatal(len(calls), err)
	}
	for i := range calls {
		if !calls[i].Answered {
			t.Fatalf("call %d has no answer", i)
		}
	}
}

// TestTapeIsSmall limits the memory of a tape: it indexes calls, and leaves their answers in the file.
func TestTapeIsSmall(t *testing.T) {
	var text strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&text, `{"sent":{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":%d}}}}`+"\n", i+1, i)
		fmt.Fprintf(&text, `{"received":{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s%d"}]}}}`+"\n", i+1, strings.Repeat("x", 1000), i)
	}
	tape := tape(t, text.String(), Options{})
	text.Reset()
	size, err := os.Stat(tape.options.File)
	if err != nil {
		t.Fatal(err)
	}
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	if err := tape.load(); err != nil {
		t.Fatal(err)
	}
	if kept := live() - before; kept > size.Size()/2 {
		t.Errorf("%d bytes are kept of a cassette of %d", kept, size.Size())
	}
	runtime.KeepAlive(tape)
}

// TestCassetteThatChanges replaces the cassette during a replay, which must fail.
func TestCassetteThatChanges(t *testing.T) {
	tape := tape(t, adds, Options{})
	c, ended := connect(t, tape)
	file := tape.options.File
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte(`"result":"first"`), []byte(`"result":"other"`), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(c, `{"name":"add","arguments":{"a":1,"b":"x"}}`); !strings.Contains(got, "error: ") {
		t.Error(got)
	}
	if err := <-ended; err == nil ||
		!strings.Contains(err.Error(), file+": the cassette has changed since it was read") {
		t.Error(err)
	}
}
