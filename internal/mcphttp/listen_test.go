package mcphttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// A server, or something between, may end a stream as often as it likes: it is asked
// for again.
func TestListenOutlivesQuietStreams(t *testing.T) {
	var asked atomic.Int64
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if asked.Add(1) <= 2*maxFailures {
			fmt.Fprint(w, "retry: 1\n\n")
			return
		}
		fmt.Fprint(w, event(noticeText))
		w.(http.Flusher).Flush()
		<-done
	}))
	defer s.Close()
	defer close(done)
	c, err := NewStreamable(ClientOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized}); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Read(); err != nil || m.Method != notice.Method {
		t.Errorf("%+v, %v", m, err)
	}
}
