//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// metAt returns a Spec whose script can stop at sync steps.
func metAt(t *testing.T, script string) (Spec, *meeting) {
	s, m := spec(t, script), newMeeting(t)
	s.Env = append(s.Env, m.env())
	return s, m
}

func TestEndlessLine(t *testing.T) {
	fault(t)
	r := start(t, spec(t, "init echo; read; bytes 1000000000; hang"))
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	_, err := r.callTool()
	goruntime.ReadMemStats(&after)
	if fault := wantKind(t, err, protocol.LineTooLong); fault.Outcome != "unknown" {
		t.Errorf("outcome = %q, want unknown", fault.Outcome)
	}
	if rise := int64(after.TotalAlloc - before.TotalAlloc); rise > 128<<20 {
		t.Errorf("allocated %d MiB for a line that was refused", rise>>20)
	}
	fault := r.end(protocol.LineTooLong)
	wantContains(t, fault.Error(), "max_line_bytes (16777216)")
	if fault.Evidence.Signal == "" { // SIGPIPE if that came before SIGKILL
		t.Errorf("evidence = %+v, want a killed process", fault.Evidence)
	}
}

func TestLineAtAndOverLimit(t *testing.T) {
	fault(t)
	const limit = 40 << 10
	line := func(size int) string {
		const frame = `{"jsonrpc":"2.0","id":1,"result":""}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	s := spec(t, "init echo; read; say "+line(limit)+"; read; say "+strings.Replace(line(limit+1), `"id":1`, `"id":2`,
		1)+"; hang")
	s.Options.MaxLineBytes = limit
	r := start(t, s)
	if _, err := r.callTool(); err != nil {
		t.Errorf("a line of %d bytes: %v", limit, err)
	}
	_, err := r.callTool()
	wantKind(t, err, protocol.LineTooLong)
	r.end(protocol.LineTooLong)
}

func TestInvalidAnswers(t *testing.T) {
	fault(t)
	for name, line := range map[string]string{
		"utf8":      `{"jsonrpc":"2.0","id":$ID,"result":"\xff"}`,
		"both":      `{"jsonrpc":"2.0","id":$ID,"result":1,"error":{"code":1,"message":"m"}}`,
		"neither":   `{"jsonrpc":"2.0","id":$ID}`,
		"error":     `{"jsonrpc":"2.0","id":$ID,"error":"text"}`,
		"duplicate": `{"jsonrpc":"2.0","id":$ID,"result":1,"result":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, spec(t, "init echo; read; say "+line+"; answer 0; echo"))
			_, err := r.callTool()
			fault := wantKind(t, err, protocol.InvalidResponse)
			if fault.Evidence == nil || !strings.HasPrefix(fault.Evidence.Line, `{"jsonrpc":"2.0","id":1`) {
				t.Errorf("evidence = %+v, want the line", fault.Evidence)
			}
			if _, err := r.callTool(); err != nil {
				t.Errorf("the child was not left running: %v", err)
			}
		})
	}
}

func TestCaseOfKeys(t *testing.T) {
	fault(t)
	r := start(t, spec(t, `init echo; read; say {"jsonrpc":"2.0","Id":$ID,"Result":"forged"}; answer "true"; echo`))
	raw, err := r.callTool()
	if err != nil || string(raw) != `{"content":[{"type":"text","text":"true"}]}` {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestUnusualIDs(t *testing.T) {
	fault(t)
	script := "init echo; read; "
	ids := []string{"9007199254740993", "1e0", "-1", "1.0", `"1"`}
	for _, id := range ids {
		script += `say {"jsonrpc":"2.0","id":` + id + `,"result":"forged"}; `
	}
	r := start(t, spec(t, script+`answer "true"; echo`))
	raw, err := r.callTool()
	if err != nil || !strings.Contains(string(raw), `"true"`) {
		t.Errorf("got %s, %v", raw, err)
	}
	if i := r.Info(); i.Unknown+i.Noise != uint64(len(ids)) {
		t.Errorf("%d unknown, %d noise, want %d in all", i.Unknown, i.Noise, len(ids))
	}
}

func TestLateAnswer(t *testing.T) {
	fault(t)
	s, m := metAt(t, `init echo; read; sync asked; read; dump; sync told; say {"jsonrpc":"2.0","id":1,"result":"late"}; echo`)
	r := start(t, s)
	ctx, cancel := context.WithCancelCause(context.Background())
	call := r.goCall(ctx, request(`{"name":"echo"}`, ""))
	goOn := m.await("asked")
	cancel(errors.New("stop was pressed"))
	wantKind(t, await(t, call).err, protocol.Canceled)
	if i := r.Info(); i.Abandoned != 1 || i.InFlight != 1 {
		t.Errorf("%d abandoned, %d in flight, want the one call", i.Abandoned, i.InFlight)
	}
	goOn()
	m.await("told")()
	if _, err := r.callTool(); err != nil { // answered after the late one
		t.Fatal(err)
	}
	if i := r.Info(); i.Abandoned != 0 || i.Late != 1 {
		t.Errorf("%d abandoned, %d late, want 0 and 1", i.Abandoned, i.Late)
	}
	// stderr has its own reader
	eventually(t, func() bool { return strings.Contains(stderrOf(r), "notifications/cancelled") })
	wantContains(t, stderrOf(r), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":`+
		`"stop was pressed","requestId":1}`)
}

func TestCallTimeout(t *testing.T) {
	fault(t)
	s := spec(t, "init echo; hang")
	s.Options.CallTimeout = 50 * time.Millisecond
	s.Options.ShutdownGrace = time.Millisecond
	r := start(t, s)
	_, err := r.callTool()
	if fault := wantKind(t, err, protocol.CallTimeout); fault.Outcome != "unknown" {
		t.Errorf("outcome = %q, want unknown", fault.Outcome)
	}
	if i := r.Info(); i.PID == 0 || i.Abandoned != 1 {
		t.Errorf("info = %+v, want a child that goes on and owes an answer", i)
	}
}

func TestAnswersOutOfOrder(t *testing.T) {
	fault(t)
	r := start(t, spec(t, "init echo; read; read; read; last; last; last; echo"))
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			mark := fmt.Sprintf(`"call":%d`, i)
			raw, err := r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":{`+mark+`}}`)
			if err != nil || !strings.Contains(string(raw), mark) {
				t.Errorf("call %d got %s, %v", i, raw, err)
			}
		})
	}
	wg.Wait()
}

func TestGrandchildWritesToStdout(t *testing.T) {
	fault(t)
	s, m := metAt(t, "init echo; orphan out not for you, sync written; read; answer; echo")
	r := start(t, s)
	m.await("written")()
	raw, err := r.callTool()
	if err != nil || !strings.Contains(string(raw), "12345678901234567890") {
		t.Errorf("got %s, %v", raw, err)
	}
	if n := r.Info().Noise; n != 1 {
		t.Errorf("%d lines of noise, want 1", n)
	}
}

func TestNeverReadsStdin(t *testing.T) {
	fault(t)
	big := `{"name":"echo","arguments":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
	hurried := func(r *trial) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, err := r.Call(ctx, &Request{Method: protocol.MethodToolsCall, Params: json.RawMessage(big)})
		return err
	}
	s := spec(t, "init echo; hang")
	s.writeTimeout = patience
	r := start(t, s)
	wantKind(t, hurried(r), protocol.CallTimeout) // long before write_stalled
	r.Kill()
	r.end(protocol.ChildExited)

	s.writeTimeout = 200 * time.Millisecond
	r = start(t, s)
	_ = hurried(r) // comes before write_stalled, or after it on a busy machine
	_, err := r.request(protocol.MethodToolsCall, big)
	wantKind(t, err, protocol.WriteStalled)
	r.end(protocol.WriteStalled)
}

func TestGrandchildHoldsStdout(t *testing.T) {
	fault(t)
	s, m := metAt(t, "init echo; orphan sync held; read; err oops; exit 7")
	r := start(t, s)
	letGo := m.await("held")
	_, err := r.callTool()
	fault := wantKind(t, err, protocol.ChildExited)
	if e := fault.Evidence; e.ExitCode == nil || *e.ExitCode != 7 || len(e.Stderr) != 1 || e.Stderr[0] != "oops" {
		t.Errorf("evidence = %+v", e)
	}
	if fault.Outcome != "unknown" {
		t.Errorf("outcome = %q, want unknown", fault.Outcome)
	}
	r.end(protocol.ChildExited)
	letGo()
}

// TestAnswerBeforeDeath loses no answer that was written before the end.
func TestAnswerBeforeDeath(t *testing.T) {
	fault(t)
	for range 10 {
		r := start(t, spec(t, "init echo; read; answer; kill 9"))
		if raw, err := r.callTool(); err != nil {
			t.Errorf("got %s, %v", raw, err)
		}
		r.end(protocol.ChildExited)
	}
}

func TestStdoutClosed(t *testing.T) {
	fault(t)
	r := start(t, spec(t, "init echo; read; close; hang"))
	_, err := r.callTool()
	fault := wantKind(t, err, protocol.StdoutClosed)
	if fault.Outcome != "unknown" || fault.Evidence.Signal != "SIGKILL" {
		t.Errorf("outcome %q, evidence %+v", fault.Outcome, fault.Evidence)
	}
	r.end(protocol.StdoutClosed)
}

func TestHalfLine(t *testing.T) {
	fault(t)
	const half = `{"jsonrpc":"2.0","id":1,"resu`
	r := start(t, spec(t, "init echo; read; half "+half+"; close; hang"))
	_, err := r.callTool()
	if fault := wantKind(t, err, protocol.StdoutClosed); fault.Evidence == nil || fault.Evidence.Line != half {
		t.Errorf("evidence = %+v, want the half line", fault.Evidence)
	}
	r.end(protocol.StdoutClosed)
}

// blockedHandler is a slow log handler.
type blockedHandler struct {
	slog.Handler
	release chan struct{}
}

func (h blockedHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h blockedHandler) Handle(context.Context, slog.Record) error {
	<-h.release
	return nil
}

// A child that has exited is not reported as running, even if its last output takes long to process.
func TestExitIsNotAnEndOfStdout(t *testing.T) {
	fault(t)
	h := blockedHandler{slog.DiscardHandler, make(chan struct{})}
	defer close(h.release)
	s, m := metAt(t, "init echo; sync ready; err last words; exit 3")
	s.Logger, s.exitGrace = slog.New(h), 100*time.Millisecond // the handler delays the end of the output for longer
	r := start(t, s)
	m.await("ready")()
	wantContains(t, r.end(protocol.ChildExited).Error(), "exit status 3")
}

// slowly is an endpoint that takes long to exit.
type slowly struct {
	local
	exiting chan struct{} // received from at each call of Dying
	ended   chan struct{}
}

func (s slowly) Exited() <-chan struct{} { return s.ended }
func (s slowly) Done() <-chan struct{}   { return s.ended }
func (s slowly) exit() string            { return "killed" }
func (s slowly) Dying() bool {
	if _, still := <-s.exiting; still {
		return true
	}
	close(s.ended)
	return true
}

// A child that is exiting is not reported as running, however long that takes.
func TestDyingIsNotAnEndOfStdout(t *testing.T) {
	b := slowly{exiting: make(chan struct{}, 3), ended: make(chan struct{})}
	for range cap(b.exiting) {
		b.exiting <- struct{}{}
	}
	close(b.exiting)
	c := &child{
		spec:     &Spec{Manifest: new(manifest.Manifest), exitGrace: time.Millisecond},
		endpoint: b,
		connErr:  io.EOF,
		connDone: make(chan struct{}),
	}
	c.conn = jsonrpc.NewConn(nil, jsonrpc.Options{})
	close(c.connDone)
	if fault := c.disconnected(); fault.Kind != protocol.ChildExited {
		t.Error(fault)
	}
}

// TestPlainRequest checks that a request which is known to have no _meta is sent as it is found to have none.
func TestPlainRequest(t *testing.T) {
	s := spec(t, "")
	modern := newMCP(&s)
	modern.modern = true
	for name, d := range map[string]dialect{"native": &native{}, "mcp": newMCP(&s), "mcp2026": modern} {
		for _, meta := range []json.RawMessage{nil, json.RawMessage(`{"agent_id":"a"}`)} {
			r := Request{
				Method: protocol.MethodToolsCall,
				Params: json.RawMessage(`{"name":"echo","arguments":{"text":"a text"}}`),
				Meta:   meta,
			}
			_, want, err := d.outgoing(&r, callerToken(&r))
			if err != nil {
				t.Fatal(err)
			}
			r.Plain = true
			if _, got, _ := d.outgoing(&r, callerToken(&r)); string(got) != string(want) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}
