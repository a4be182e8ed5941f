package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"strings"
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

// TestTokenThatNoHeaderCarries tests that such a token, which may be a renewed one, is named as the fault: the server
// is not unreachable.
func TestTokenThatNoHeaderCarries(t *testing.T) {
	for _, first := range []string{"good", "t0rn\n"} {
		synctest.Test(t, func(t *testing.T) {
			s, err := NewStreamable(Options{
				URL:   "http://server.example",
				Token: func(context.Context) (string, error) { return first, nil },
				Renew: func(context.Context, string, []string) (string, error) { return "t0rn\n", nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.http.Transport = server(func(*http.Request) (int, string) { return http.StatusUnauthorized, "" })
			err = s.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized})
			if _, ok := errors.AsType[*CredentialsError](err); !ok || !strings.Contains(err.Error(), "line break") {
				t.Errorf("with the token %q: %v", first, err)
			}
		})
	}
}
