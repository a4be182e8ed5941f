package mcphttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// detached serves requests with a handler that sends some messages, detaches, and returns when the test ends.
func detached(t *testing.T, messages int) (addr string) {
	ended, returned := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		p := NewReply(w, r)
		defer p.Close()
		w.Header().Set("Vary", "Origin")
		if !p.MayDetach() {
			t.Error("it cannot be detached from")
		}
		for range messages {
			if err := p.Send(r.Context(), notice); err != nil {
				t.Error(err)
			}
		}
		if err := p.Detach(answer); err != nil {
			t.Error(err)
		}
		if err := p.Detach(answer); err != ErrNoStream {
			t.Errorf("a second time: %v", err)
		}
		<-ended
		if r.Context().Err() != nil {
			t.Error("the context of the request has ended before its handler")
		}
	}))
	t.Cleanup(func() { close(ended); <-returned; s.Close() })
	return s.Listener.Addr().String()
}

// A detached answer is complete while its handler goes on, and is the last on its connection.
func TestDetach(t *testing.T) {
	for messages, want := range []string{
		answerText,
		event(noticeText) + event(answerText),
		event(noticeText) + event(noticeText) + event(answerText),
	} {
		conn, err := net.Dial("tcp", detached(t, messages))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		in := bufio.NewReader(conn)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != want || response.Header.Get("Vary") != "Origin" || !response.Close {
			t.Errorf("behind %d messages: %v %v %q", messages, err, response.Header, body)
		}
		if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
			t.Errorf("behind the answer: %q, %v", rest, err)
		}
	}
}

// Detach is impossible for other versions of HTTP and for writers without a connection.
func TestDetachIsForHTTP1(t *testing.T) {
	can := make(chan bool, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		can <- NewReply(w, r).MayDetach()
	}))
	defer s.Close()
	for version, want := range map[string]bool{"1.0": false, "1.1": true} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/"+version+"\r\nHost: x\r\nAccept: application/json\r\n\r\n")
		if got := <-can; got != want {
			t.Errorf("HTTP/%s: %v", version, got)
		}
		conn.Close()
	}
	if NewReply(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(""))).MayDetach() {
		t.Error("a recorder can be detached from")
	}
}

// A client that does not read delays a detached answer at most until the server shuts down,
// although the server no longer knows the connection.
func TestDetachEndsWithTheServer(t *testing.T) {
	running, stop := context.WithCancel(t.Context())
	detached := make(chan error, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := NewReply(w, r)
		defer p.Close()
		_ = p.MayDetach()
		detached <- p.Detach(&jsonrpc.Message{ID: answer.ID, Result: rawjson.Quote(strings.Repeat("x", 32<<20))})
	}))
	s.Config.BaseContext = func(net.Listener) context.Context { return running }
	s.Start()
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-detached:
		if err == nil {
			t.Error("an answer counts as complete before the client has read all of it")
		}
	case <-time.After(time.Minute):
		t.Error("the answer is still being written")
	}
}
