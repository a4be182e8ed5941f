package mcpclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

const notification = `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}`

// A server or proxy may end the standalone stream any number of times: the client
// requests it again.
func TestListenOutlivesQuietStreams(t *testing.T) {
	var requests atomic.Int64
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if requests.Add(1) <= 2*maxFailures {
			fmt.Fprint(w, "retry: 1\n\n")
			return
		}
		fmt.Fprint(w, "event: message\ndata: "+notification+"\n\n")
		w.(http.Flusher).Flush()
		<-done
	}))
	defer s.Close()
	defer close(done)
	c, err := NewStreamable(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized}); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Read(); err != nil || m.Method != "notifications/x" {
		t.Errorf("%+v, %v", m, err)
	}
}
