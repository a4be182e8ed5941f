package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// bank is a server whose first answer to the tool pay is a stream that breaks after an event with an id.
type bank struct {
	restarts bool          // the server is restarted when the stream breaks, and knows no earlier session
	unknown  int           // status for a session that it does not know, and for a GET
	waiting  chan struct{} // closed when the tool wait has been called
	goOn     chan struct{} // lets wait answer

	mu       sync.Mutex
	start    int // how often it was started
	sessions int
	paid     int // calls of pay
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if body, err := io.ReadAll(r.Body); err != nil || r.Method == http.MethodPost && json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.Params.Name == "wait" {
		close(b.waiting)
		<-b.goOn
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	session := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodGet || session != "" && session != fmt.Sprint("start ", b.start) {
		w.WriteHeader(b.unknown)
		return
	}
	result := `{}`
	switch {
	case len(m.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == protocol.MethodInitialize:
		b.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("start ", b.start))
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
	case m.Method == protocol.MethodToolsList:
		result = `{"tools":[{"name":"pay","inputSchema":{"type":"object"}},` +
			`{"name":"wait","inputSchema":{"type":"object"}}]}`
	case m.Params.Name == "pay":
		if b.paid++; b.paid == 1 {
			if b.restarts {
				b.start++
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\nretry: 1\ndata: \n\n")
			return
		}
		fallthrough
	case m.Method == protocol.MethodToolsCall:
		result = `{"content":[{"type":"text","text":"done"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// TestCallOfABrokenStreamIsNotSentAgain tests that a call is sent once if the server has begun to answer it with a
// stream, which breaks, and then refuses to resume the stream: the tool may have run. A refused GET alone does not end
// the session, since the server may have no route for GET: another call in flight is answered.
func TestCallOfABrokenStreamIsNotSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		restarts bool
		unknown  int
	}{
		"restarted, 404":           {restarts: true, unknown: http.StatusNotFound},
		"restarted, 401":           {restarts: true, unknown: http.StatusUnauthorized},
		"no route for GET, 404":    {unknown: http.StatusNotFound},
		"credentials for GET, 401": {unknown: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			b := &bank{
				restarts: c.restarts,
				unknown:  c.unknown,
				waiting:  make(chan struct{}),
				goOn:     make(chan struct{}),
			}
			s := httptest.NewServer(b)
			t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
			h := hosttest.NewFolder(t).Add("bank", fmt.Sprintf("[transport]\nurl = %q\nmcp_version = \"2025-11-25\"\n",
				s.URL)).Open(exthost.Options{})
			waited := make(chan error, 1)
			if c.restarts {
				close(b.goOn)
				waited <- nil
			} else {
				go func() {
					_, err := h.Call(hosttest.Deadline(t), "ext_bank_wait", nil)
					waited <- err
				}()
				<-b.waiting
			}
			_, err := h.Call(hosttest.Deadline(t), "ext_bank_pay", nil)
			if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Outcome != "unknown" {
				t.Errorf("the call whose stream broke: %+v", err)
			}
			if !c.restarts {
				close(b.goOn)
			}
			if err := <-waited; err != nil {
				t.Errorf("the other call: %v", err)
			}
			if got, err := h.Call(hosttest.Deadline(t), "ext_bank_pay", nil); err != nil || got.Text() != "done" {
				t.Errorf("the next call: %s, %v", got, err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.paid != 2 || !c.restarts && b.sessions != 1 {
				t.Errorf("two calls were carried out %d times, in %d sessions", b.paid, b.sessions)
			}
		})
	}
}
