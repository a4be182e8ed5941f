package mcpclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// TestCallersDeadlineEndsTheWaitForAToken tests that a request whose token takes longer than its caller waits is not
// sent, and returns at the caller's deadline, as one that can be sent again.
func TestCallersDeadlineEndsTheWaitForAToken(t *testing.T) {
	for name, connect := range map[string]func(Options) (jsonrpc.Transport, error){
		"streamable": func(o Options) (jsonrpc.Transport, error) { return NewStreamable(o) },
		"events": func(o Options) (jsonrpc.Transport, error) {
			e := &Events{ready: make(chan struct{})}
			err := e.init(o)
			return e, errors.Join(err, e.setEndpoint("/"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := connect(Options{
					URL: "http://server.example",
					Token: func(ctx context.Context) (string, error) {
						<-ctx.Done()
						return "", ctx.Err()
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err = s.Write(ctx, jsonrpc.Message{ID: []byte("1"), Method: protocol.MethodToolsCall})
				if d := time.Since(began); d != time.Second || err != context.DeadlineExceeded {
					t.Errorf("after %v: %v", d, err)
				}
			})
		})
	}
}
