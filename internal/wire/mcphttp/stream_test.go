package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/sse"
)

var (
	answer = &jsonrpc.Message{ID: json.RawMessage(`"a"`), Result: json.RawMessage(`{"n": 12345678901234567890}`)}
	notice = &jsonrpc.Message{Method: "notifications/x", Params: json.RawMessage(`{"a":1}`)}
)

const (
	answerText = `{"jsonrpc":"2.0","id":"a","result":{"n": 12345678901234567890}}`
	noticeText = `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}`
)

func event(data string) string { return "event: message\ndata: " + data + "\n\n" }

func newReply(accept string) (*Reply, *httptest.ResponseRecorder) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	return NewReply(w, r), w
}

func TestReplyWithoutOtherMessagesIsPlain(t *testing.T) {
	p, w := newReply("application/json, text/event-stream")
	defer p.Close()
	if err := p.Answer(http.StatusNotFound, answer); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusNotFound || w.Body.String() != answerText ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for _, err := range []error{p.Answer(http.StatusOK, answer), p.Send(t.Context(), notice)} {
		if !errors.Is(err, ErrNoStream) {
			t.Errorf("after the answer: %v", err)
		}
	}
}

func TestReplyBecomesAStream(t *testing.T) {
	p, w := newReply("")
	defer p.Close()
	if err := errors.Join(p.Send(t.Context(), notice), p.Answer(http.StatusNotFound, answer)); err != nil {
		t.Fatal(err)
	}
	want := event(noticeText) + event(answerText)
	if w.Code != http.StatusOK || w.Body.String() != want || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
}

func TestReplyToAClientWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newReply("application/json")
		defer p.Close()
		if err := p.Send(t.Context(), notice); !errors.Is(err, ErrNoStream) {
			t.Errorf("Send: %v", err)
		}
		time.Sleep(10 * sse.KeepAlive)
		if err := p.Answer(http.StatusOK, answer); err != nil || w.Body.String() != answerText {
			t.Errorf("%v, %s", err, w.Body)
		}
	})
}

func TestSilentReplySendsKeepAlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newReply("*/*")
		time.Sleep(2*sse.KeepAlive + time.Second)
		if err := p.Answer(http.StatusOK, answer); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * sse.KeepAlive) // no keep-alive follows the answer
		p.Close()
		if want := ": \n\n: \n\n" + event(answerText); w.Body.String() != want {
			t.Errorf("got %q, want %q", w.Body, want)
		}
	})
}

// A line break in the payload must not end the event early.
func TestLineBreaksStayInsideAnEvent(t *testing.T) {
	p, w := newReply("")
	defer p.Close()
	m := &jsonrpc.Message{Method: "m", Params: json.RawMessage("{\n\"a\":\r\n1}")}
	if err := p.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if want := event(`{"jsonrpc":"2.0","method":"m","params":{"a":1}}`); w.Body.String() != want {
		t.Errorf("got %q, want %q", w.Body, want)
	}
}

func TestOutboxKeepsMessagesUntilAStreamOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOutbox()
		for range outboxSize {
			if err := o.Offer(t.Context(), notice); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Offer(t.Context(), notice); !errors.Is(err, ErrNoStream) {
			t.Errorf("Offer to a full outbox: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := o.Put(ctx, notice); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put into a full outbox: %v", err)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		if err := o.Serve(ctx, w, "/message?sessionId=1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Serve: %v", err)
		}
		want := "event: endpoint\ndata: /message?sessionId=1\n\n" + strings.Repeat(event(noticeText), outboxSize)
		if w.Body.String() != want {
			t.Errorf("got %q", w.Body)
		}
	})
}

// The bytes queued for a client are bounded. While the client does not read, the bound is lower for
// senders that do not wait.
func TestOutboxBoundsTheBytesThatWait(t *testing.T) {
	long := func(bytes int) *jsonrpc.Message {
		return &jsonrpc.Message{
			Method: "notifications/x",
			Params: json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`),
		}
	}
	o := NewOutbox()
	if err := o.Offer(t.Context(), long(offeredBytes)); !errors.Is(err, ErrNoStream) {
		t.Errorf("while nobody reads: %v", err)
	}
	o.replaceStream()
	if err := o.Offer(t.Context(), long(offeredBytes)); err != nil {
		t.Errorf("while somebody reads: %v", err)
	}
	if err := o.Offer(t.Context(), notice); !errors.Is(err, ErrNoStream) {
		t.Errorf("behind a long message: %v", err)
	}
	if err := errors.Join(o.Put(t.Context(), notice),
		o.Put(t.Context(), long(outboxBytes-2*offeredBytes))); err != nil {
		t.Error(err)
	}
	if err := o.Put(t.Context(), long(2*offeredBytes)); !errors.Is(err, ErrNoStream) {
		t.Errorf("beyond all bounds: %v", err)
	}
	if err := o.Put(t.Context(), &jsonrpc.Message{ID: answer.ID, Result: long(2 * offeredBytes).Params}); err != nil {
		t.Error(err)
	}
	o.Close()
	w := httptest.NewRecorder()
	if err := o.Serve(t.Context(), w, ""); err != nil {
		t.Error(err)
	}
	if got := w.Body.String(); !strings.HasSuffix(got,
		event(`{"jsonrpc":"2.0","id":"a","error":`+string(tooManyAnswers)+`}`)) || o.waiting != 0 {
		t.Errorf("%d bytes end with %q, %d are counted as waiting", len(got), got[max(0, len(got)-300):], o.waiting)
	}
}

// Messages that arrive meanwhile do not prolong a stream that is about to end.
func TestClosedOutboxTakesNoMessages(t *testing.T) {
	o, w := NewOutbox(), httptest.NewRecorder()
	if err := o.Offer(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
	o.Close()
	if err := o.Offer(t.Context(), notice); !errors.Is(err, ErrNoStream) {
		t.Errorf("Offer: %v", err)
	}
	if err := o.Serve(t.Context(), w, ""); err != nil || strings.Count(w.Body.String(), "data:") != 1 {
		t.Errorf("%q, %v", w.Body, err)
	}
}

func TestOutboxTakesRequestsOnlyWithAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOutbox()
		request := &jsonrpc.Message{ID: json.RawMessage("1"), Method: "roots/list"}
		if err := o.Offer(t.Context(), request); !errors.Is(err, ErrNoStream) {
			t.Errorf("without a stream: %v", err)
		}
		served := make(chan error, 2)
		first, second := httptest.NewRecorder(), httptest.NewRecorder()
		go func() { served <- o.Serve(t.Context(), first, "") }()
		synctest.Wait()
		go func() { served <- o.Serve(t.Context(), second, "") }()
		synctest.Wait()
		if err := <-served; err != nil {
			t.Errorf("the stream that was replaced: %v", err)
		}
		if err := o.Offer(t.Context(), request); err != nil {
			t.Errorf("with a stream: %v", err)
		}
		synctest.Wait()
		time.Sleep(sse.KeepAlive)
		synctest.Wait()
		_ = o.Offer(t.Context(), notice)
		o.Close()
		o.Close()
		if err := <-served; err != nil {
			t.Errorf("the stream that was closed: %v", err)
		}
		want := ": \n\n" + event(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`) + ": \n\n" + event(noticeText)
		if first.Body.String() != ": \n\n" || second.Body.String() != want {
			t.Errorf("first %q, second %q", first.Body, second.Body)
		}
		if err := errors.Join(o.Offer(t.Context(), request), o.Put(t.Context(), notice)); !errors.Is(err, ErrNoStream) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// deaf is a client that reads no byte.
type deaf struct{ http.ResponseWriter }

var errDeaf = errors.New("nobody reads")

func (deaf) Write([]byte) (int, error) { return 0, errDeaf }

func TestWritesThatFailEndTheStream(t *testing.T) {
	w := deaf{httptest.NewRecorder()}
	if err := NewOutbox().Serve(t.Context(), w, ""); !errors.Is(err, errDeaf) {
		t.Errorf("Serve: %v", err)
	}
	p := NewReply(w, httptest.NewRequest(http.MethodPost, "/", nil))
	defer p.Close()
	if err := p.Send(t.Context(), notice); !errors.Is(err, errDeaf) {
		t.Errorf("Send: %v", err)
	}
	if err := WriteJSON(w, http.StatusOK, answer); !errors.Is(err, errDeaf) {
		t.Errorf("WriteJSON: %v", err)
	}
}

// breaks is a client whose connection breaks after a number of writes.
type breaks struct {
	*httptest.ResponseRecorder
	after int
}

func (b *breaks) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errDeaf
	}
	return b.ResponseRecorder.Write(p)
}

// The next stream begins with the message that the last one failed to write.
func TestOutboxSendsAgainWhatWasNotWritten(t *testing.T) {
	o := NewOutbox()
	numbered := func(n string) *jsonrpc.Message {
		return &jsonrpc.Message{Method: "m", Params: json.RawMessage("[" + n + "]")}
	}
	for _, n := range []string{"1", "2", "3"} {
		if err := o.Offer(t.Context(), numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	first := &breaks{httptest.NewRecorder(), 2}
	if err := o.Serve(t.Context(), first, ""); !errors.Is(err, errDeaf) {
		t.Errorf("the stream that breaks: %v", err)
	}
	if err := o.Put(t.Context(), &jsonrpc.Message{Method: "m", Params: json.RawMessage("{\n")}); err != nil {
		t.Error(err)
	}
	second := httptest.NewRecorder()
	if err := o.Serve(t.Context(), second, ""); err == nil { // ends at the message that is not JSON
		t.Error("a message that is no JSON was written")
	}
	_ = o.Offer(t.Context(), numbered("4"))
	o.Close()
	last := httptest.NewRecorder()
	if err := o.Serve(t.Context(), last, ""); err != nil {
		t.Error(err)
	}
	event := func(n string) string { return event(`{"jsonrpc":"2.0","method":"m","params":[` + n + `]}`) }
	if got := second.Body.String(); got != ": \n\n"+event("2")+event("3") {
		t.Errorf("after the break: %q", got)
	}
	if got := last.Body.String(); got != ": \n\n"+event("4") || o.waiting != 0 {
		t.Errorf("%q, %d bytes are counted as waiting", got, o.waiting)
	}
}

// A stream whose client is gone leaves the queue to the next one.
func TestEndedStreamTakesNoMessages(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a select between the end and a message would pick either
		o := NewOutbox()
		_ = o.Offer(t.Context(), notice)
		w := httptest.NewRecorder()
		if err := o.Serve(ended, w, ""); !errors.Is(err, context.Canceled) || w.Body.String() != ": \n\n" {
			t.Fatalf("%v, %q", err, w.Body)
		}
	}
}
