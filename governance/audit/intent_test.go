package audit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
)

// exchange is a call with an id.
func exchange(id string) *governance.Exchange {
	return &governance.Exchange{
		ID:      id,
		Method:  "tools/call",
		Tool:    "tool_" + id,
		Caller:  "ann",
		ToChild: true,
		Began:   time.Now(),
		Request: json.RawMessage(`{"name":"x","arguments":{"to":"jane@example.com"}}`),
	}
}

func decide(t *testing.T, l *Log, flow governance.Flow, x *governance.Exchange) {
	t.Helper()
	if _, err := l.Decide(t.Context(), flow, x); err != nil {
		t.Fatal(err)
	}
}

// killed returns a copy of the log on disk once it has n lines, as a host killed at that moment
// leaves it.
func killed(t *testing.T, path string, n int) string {
	t.Helper()
	var data []byte
	for strings.Count(string(data), "\n") < n {
		data, _ = os.ReadFile(path)
	}
	left := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(left, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return left
}

// outcomes lists the records as tool=outcome.
func outcomes(records []Record) string {
	var words []string
	for _, r := range records {
		words = append(words, strings.TrimPrefix(r.Tool, "tool_")+"="+string(r.Outcome))
	}
	return strings.Join(words, " ")
}

// A sent call is in the log before it ends: pending while its host runs, lost once the host was
// killed, also after another host has continued the log.
func TestIntents(t *testing.T) {
	l, path := begin(t, Options{})
	for _, id := range []string{"a", "b", "c"} {
		decide(t, l, governance.Request, exchange(id))
	}
	x := exchange("b")
	x.Response = json.RawMessage(`{}`)
	decide(t, l, governance.Response, x)
	left := killed(t, path, 5) // the head, three intents, one outcome

	if got := outcomes(read(t, path, Query{})); got != "b=ok a=pending c=pending" {
		t.Errorf("while the host runs: %s", got)
	}
	for _, id := range []string{"a", "c"} {
		decide(t, l, governance.Response, exchange(id))
	}
	end(t, l)
	if report, err := verify(t, path); err != nil || len(report.Unfinished) > 0 {
		t.Errorf("all have ended: %+v, %v", report, err)
	}

	if got := outcomes(read(t, left, Query{})); got != "b=ok a=lost c=lost" {
		t.Errorf("after the host was killed: %s", got)
	}
	next, _ := begin(t, Options{Path: left})
	decide(t, next, governance.Request, exchange("d"))
	decide(t, next, governance.Response, exchange("d"))
	end(t, next)
	records := read(t, left, Query{})
	if got := outcomes(records); got != "b=ok a=lost c=lost d=ok" {
		t.Errorf("after another host: %s", got)
	}
	if lost := records[1]; !strings.Contains(lost.Error, "was in flight when the host ended, between ") ||
		!strings.Contains(string(lost.Request.JSON), "[redacted:email]") {
		t.Errorf("%+v", lost)
	}
	report, err := verify(t, left)
	if err != nil || outcomes(report.Unfinished) != "a=lost c=lost" || report.Unfinished[0].ID != "a" {
		t.Errorf("%+v, %v", report, err)
	}
	if got := outcomes(read(t, left, Query{Last: 2, Tool: "tool_?"})); got != "c=lost d=ok" {
		t.Errorf("the last two: %s", got)
	}
}

// A request that a hook changed has two intents; the last one was sent.
func TestIntentOfAChangedRequest(t *testing.T) {
	l, path := begin(t, Options{})
	for _, by := range []string{"the caller", "a hook"} {
		x := exchange("a")
		x.Request = json.RawMessage(`{"name":"x","arguments":{"by":"` + by + `"}}`)
		decide(t, l, governance.Request, x)
	}
	left := killed(t, path, 3) // the head, two intents
	end(t, l)
	records := read(t, left, Query{})
	if got := outcomes(records); got != "a=lost" || !strings.Contains(string(records[0].Request.JSON), "a hook") {
		t.Errorf("%s: %+v", got, records)
	}
	if report, err := verify(t, left); err != nil || outcomes(report.Unfinished) != "a=lost" {
		t.Errorf("%+v, %v", report, err)
	}
}

// A call with intent and outcome in different files is not lost.
func TestIntentsThroughRotation(t *testing.T) {
	l, path := begin(t, Options{MaxSize: 1, Keep: 9})
	decide(t, l, governance.Request, exchange("long"))
	add(t, l, 1, 600)
	decide(t, l, governance.Response, exchange("long"))
	decide(t, l, governance.Request, exchange("open"))
	end(t, l)
	report, err := verify(t, path)
	if err != nil || len(report.Files) < 2 || outcomes(report.Unfinished) != "open=lost" {
		t.Errorf("%d files, unfinished %q, %v", len(report.Files), outcomes(report.Unfinished), err)
	}
}

// The log remembers at most maxOpen calls in flight.
func TestIntentsAreForgotten(t *testing.T) {
	l, _ := begin(t, Options{})
	defer end(t, l)
	decide(t, l, governance.Request, exchange("a"))
	decide(t, l, governance.Response, exchange("a"))
	if len(l.sent) != 0 {
		t.Errorf("%d remain", len(l.sent))
	}
	changed := exchange("b")
	decide(t, l, governance.Request, changed)
	changed.Request = json.RawMessage(`{"name":"x","arguments":{"to":"by a hook"}}`)
	p, err := l.payloadAgain(t.Context(), l.sent["b"], changed.Request)
	if err != nil || !strings.Contains(string(p.JSON), "by a hook") {
		t.Errorf("the record of a request that a hook changed has %s, %v", p.JSON, err)
	}
}

// anchors is a log handler that records anchors.
type anchors struct {
	slog.Handler
	told chan string
}

func (a anchors) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "hash" {
			a.told <- attr.Value.String()
		}
		return true
	})
	return nil
}

func (a anchors) Enabled(context.Context, slog.Level) bool { return true }

// The hash of the last record is logged after the interval and at the close, and not if it is
// unchanged.
func TestAnchors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 10)
		l, path := begin(t, Options{Anchor: time.Minute, Log: slog.New(anchors{slog.DiscardHandler, told})})
		add(t, l, 1, 1)
		synctest.Wait()
		if len(told) != 0 {
			t.Error("told at once")
		}
		add(t, l, 2, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		report, err := verify(t, path)
		if err != nil || len(told) != 1 {
			t.Fatal(len(told), err)
		}
		if got := <-told; got != report.Hash {
			t.Errorf("told %s, want %s", got, report.Hash)
		}
		time.Sleep(time.Hour)
		add(t, l, 4, 4)
		end(t, l)
		if report, err = verify(t, path); err != nil || len(told) != 1 || <-told != report.Hash {
			t.Errorf("the close told %d, %v", len(told), err)
		}
		l, _ = begin(t, Options{Path: path, Anchor: -1, Log: slog.New(anchors{slog.DiscardHandler, told})})
		time.Sleep(time.Hour)
		end(t, l)
		if len(told) != 0 {
			t.Error("a log that was not written was told of")
		}
	})
}

// A log can be cut, deleted, or rebuilt with a valid chain. A hash kept elsewhere detects it.
func TestExpectedHash(t *testing.T) {
	l, path := begin(t, Options{})
	add(t, l, 1, 5)
	end(t, l)
	report, err := verify(t, path)
	if err != nil {
		t.Fatal(err)
	}
	anchor := report.Hash
	l, _ = begin(t, Options{Path: path})
	add(t, l, 6, 8)
	end(t, l)
	whole, _ := os.ReadFile(path)
	report, err = VerifyExpecting(anchor, path)
	if at := report.Expected; err != nil || at == nil || at.Number != 6 || at.Line != 6 || at.File != path {
		t.Fatalf("%+v, %v", report.Expected, err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	cut := strings.Join(lines[:4], "")

	var anew []byte
	last := link{}
	for i, line := range lines[:len(lines)-1] {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			m["tool"] = "harmless"
		}
		delete(m, "seq")
		delete(m, "prev")
		delete(m, "hash")
		body, _ := json.Marshal(m)
		last.Seq++
		anew, last.Hash = seal(anew, body, last.Seq, last.Hash)
	}
	for name, text := range map[string]string{"cut": cut, "made anew": string(anew)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(path); err != nil {
			t.Fatalf("%s: the chain must hold, or this tests nothing: %v", name, err)
		}
		if report, err := VerifyExpecting(anchor, path); err != nil || report.Expected != nil {
			t.Errorf("%s: %+v, %v", name, report.Expected, err)
		}
	}
}

// A reader that checks for a writer does not prevent a host from opening the log.
func TestReadersDoNotTakeTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, _ := begin(t, Options{Path: path})
	add(t, l, 1, 1)
	end(t, l)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			written(path)
		}
	}()
	for range 50 {
		l, err := Open(Options{Path: path})
		if errors.Is(err, ErrTaken) {
			t.Error(err)
			break
		}
		end(t, l)
	}
	stop()
	<-ended
}

// A refused answer to an approval request of the response flow does not end the call.
func TestRefusedAnswerEndsNoIntent(t *testing.T) {
	l, path := begin(t, Options{})
	decide(t, l, governance.Request, exchange("a"))
	refused := Record{ID: "a", Tool: "answer", Method: MethodAnswer, Outcome: Denied}
	if err := l.Append(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	left := killed(t, path, 3) // the head, the intent, the answer
	if got := outcomes(read(t, left, Query{})); got != "answer=denied a=lost" {
		t.Errorf("read: %s", got)
	}
	report, err := Verify(left)
	if err != nil || outcomes(report.Unfinished) != "a=lost" {
		t.Errorf("unfinished: %s, %v", outcomes(report.Unfinished), err)
	}
	decide(t, l, governance.Response, exchange("a"))
	end(t, l)
}
