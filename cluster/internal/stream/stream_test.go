package stream

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

var front = wire.Address{Node: "front", Run: "aaaaaaaaaa"}

func newServer(t *testing.T, serve http.HandlerFunc) *Server {
	s := NewServer(func(ctx context.Context, w http.ResponseWriter, request []byte) {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(request))
		serve(w, r)
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// from returns the Call with which a run calls s.
func from(s *Server, run wire.Address) Call {
	return func(ctx context.Context, method string, body []byte) ([]byte, error) {
		return s.Run(ctx, run, method, body)
	}
}

// A response reaches an HTTP client as its handler wrote it.
func TestResponse(t *testing.T) {
	long := make([]byte, 5*maxWaiting+7)
	_, _ = rand.Read(long)
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		status int
		want   string
		header http.Header
	}{
		"nothing":  {func(http.ResponseWriter, *http.Request) {}, 200, "", nil},
		"a status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "", nil},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) }, 404, "no\n",
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}}},
		"headers": {func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{
				"Mcp-Session-Id",
				"Set-Cookie",
				"Access-Control-Allow-Origin",
				"Retry-After",
			} {
				w.Header().Set(name, "5")
			}
			_, _ = io.WriteString(w, "x")
			w.Header().Set("Allow", "too late")
		}, 200, "x", http.Header{
			"Mcp-Session-Id":              {"5"},
			"Retry-After":                 {"5"},
			"Set-Cookie":                  nil,
			"Access-Control-Allow-Origin": nil,
			"Allow":                       nil,
		}},
		"flushes": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				_, _ = fmt.Fprint(w, i, ".")
				_ = http.NewResponseController(w).Flush()
			}
		}, 200, func() (s string) {
			for i := range 100 {
				s += strconv.Itoa(i) + "."
			}
			return s
		}(), nil},
		"two lengths": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{"1", "2"}
			_, _ = io.WriteString(w, "x")
		}, 200, "x", nil},
		"long":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(long) }, 200, string(long), nil},
		"the body": {func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, 200, "request", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, tt.serve)
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := Copy(r.Context(), w, from(s, front), []byte("request")); err != nil {
					t.Error(err)
				}
			}))
			defer h.Close()
			r, err := h.Client().Get(h.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != tt.status || string(body) != tt.want {
				t.Errorf("%s with %d bytes, want %d with %d; %v", r.Status, len(body), tt.status, len(tt.want), err)
			}
			for key, want := range tt.header {
				if got := r.Header[key]; strings.Join(got, "|") != strings.Join(want, "|") {
					t.Errorf("%s: %q", key, got)
				}
			}
			if len(s.open) != 0 {
				t.Errorf("%d streams are left", len(s.open))
			}
		})
	}
}

// The context of a request ends when its client disconnects, its client's run is gone, or nobody reads.
func TestClientIsGone(t *testing.T) {
	for name, leave := range map[string]func(s *Server, cancel context.CancelFunc){
		"its call is canceled": func(_ *Server, cancel context.CancelFunc) { cancel() },
		"its run is gone":      func(s *Server, _ context.CancelFunc) { s.Gone(front) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{})
				s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					close(ended)
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				copied := make(chan error, 1)
				go func() {
					_, err := Copy(ctx, httptest.NewRecorder(), from(s, front), nil)
					copied <- err
				}()
				synctest.Wait()
				leave(s, cancel)
				<-ended
				<-copied
				if len(s.open) != 0 {
					t.Errorf("%d streams are left", len(s.open))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		if _, err := s.Run(t.Context(), front, Open, nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		s.mu.Lock()
		r := s.open[1]
		s.mu.Unlock()
		<-r.ctx.Done()
		synctest.Wait()
		if waited := time.Since(began); waited != unread {
			t.Errorf("a stream that nobody reads ends after %v", waited)
		}
		if raw, err := s.Run(t.Context(), front, More, []byte("1")); err == nil || len(s.open)+len(s.of) != 0 {
			t.Errorf("it is kept: %q, %d streams are left", raw, len(s.open))
		}
	})
}

// A write waits for a slow client until its deadline.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := make(chan error, 1)
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
			_, err := w.Write(make([]byte, 3*maxWaiting))
			wrote <- err
		})
		raw, err := s.Run(t.Context(), front, Open, nil)
		if p, _ := decode(raw); err != nil || len(p.data) != maxWaiting {
			t.Fatalf("the first piece: %d bytes, %v", len(raw), err)
		}
		if err := <-wrote; err == nil {
			t.Error("a write without a reader succeeds")
		}
	})
}

// Pieces of another run are accepted as a response only if they form one.
func TestHostileServer(t *testing.T) {
	for name, pieces := range map[string][]string{
		"no head":                {"x"},
		"no JSON":                {"x\n"},
		"no status":              {`{}` + "\nbody"},
		"a status of 99":         {`{"status":99}` + "\n"},
		"a status of 101":        {`{"status":101}` + "\n"},
		"a cut":                  {`{"status":200,"stream":1}` + "\nhalf", `{"cut":true}` + "\n"},
		"an end with a cut":      {`{"status":200,"cut":true}` + "\n"},
		"an error":               {},
		"an error in the middle": {`{"status":200,"stream":1}` + "\nhalf"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			call := func(context.Context, string, []byte) ([]byte, error) {
				if n == len(pieces) {
					return nil, protocol.Errorf(protocol.NodeLost, "it is gone")
				}
				n++
				return []byte(pieces[n-1]), nil
			}
			w := httptest.NewRecorder()
			began, err := Copy(t.Context(), w, call, nil)
			if err == nil || began != strings.Contains(strings.Join(pieces, ""), "200") {
				t.Errorf("%v, %v: %d %q", began, err, w.Code, w.Body)
			}
			// a run that has answered at all may have served the request
			if e, _ := errors.AsType[*protocol.Error](err); e == nil || (e.Outcome != "") != (len(pieces) > 0) {
				t.Errorf("%#v", err)
			}
		})
	}
}

// A run can only read its own streams, one piece at a time, and a panic in a handler ends only its stream.
func TestHostileFront(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "panic" {
			panic("a fault")
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if _, err := s.Run(t.Context(), front, Open, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		run    wire.Address
		method string
		body   string
	}{{wire.Address{Node: "other", Run: "bbbbbbbbbb"}, More, "1"},
		{wire.Address{Node: "front", Run: "bbbbbbbbbb"}, More, "1"}, {front, More, ""}, {front, More, "2"},
		{front, More, "-1"}, {front, More, "99999999999999999999"}, {front, "tools/call", "1"}} {
		if raw, err := s.Run(t.Context(), tt.run, tt.method, []byte(tt.body)); err == nil {
			t.Errorf("%s of %s %q: %q", tt.method, tt.run.Node, tt.body, raw)
		}
	}
	if _, err := s.Run(t.Context(), wire.Address{Node: "other", Run: "bbbbbbbbbb"}, Close, []byte("1")); err != nil ||
		len(s.open) != 1 {
		t.Errorf("another run ends a stream: %d are left, %v", len(s.open), err)
	}
	raw, err := s.Run(t.Context(), front, Open, []byte("panic"))
	if p, _ := decode(raw); err != nil || !p.Cut || p.Stream != 0 {
		t.Errorf("a handler that panics: %q, %v", raw, err)
	}
	var twice *protocol.Error
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.Run(t.Context(), front, More, []byte("1"))
			results <- err
		}()
	}
	if err := <-results; !errors.As(err, &twice) || twice.Kind != protocol.InvalidArguments {
		t.Errorf("two reads at once: %v", err)
	}
	<-results // the stream has ended
}

// The number of streams is bounded in total and per node, whatever runs a node names.
func TestStreamsAreBounded(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	one := []wire.Address{{Node: "one", Run: "aaaaaaaaaa"}, {Node: "one", Run: "bbbbbbbbbb"}}
	for _, runs := range [][]wire.Address{one, {front}} {
		for i := range maxOfNode {
			if _, err := s.Run(t.Context(), runs[i%len(runs)], Open, nil); err != nil {
				t.Fatal(err)
			}
		}
		var full *protocol.Error
		if _, err := s.Run(t.Context(), runs[0], Open, nil); !errors.As(err, &full) ||
			full.Kind != protocol.Overloaded || full.Outcome != "" {
			t.Errorf("one more: %#v", err)
		}
	}
	if _, err := s.Run(t.Context(), wire.Address{Node: "third", Run: "cccccccccc"}, Open, nil); err == nil {
		t.Error("there is no bound of all")
	}
}

// When the node leaves, open streams are read to their end, and no stream begins.
func TestDrainFinishesOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-goOn:
				_, _ = w.Write(make([]byte, 3*maxWaiting))
			case <-r.Context().Done():
			}
		})
		w, copied := httptest.NewRecorder(), make(chan error, 1)
		go func() {
			_, err := Copy(t.Context(), w, from(s, front), nil)
			copied <- err
		}()
		synctest.Wait()
		drained := make(chan struct{})
		go func() {
			s.Drain(t.Context())
			close(drained)
		}()
		synctest.Wait()
		if _, err := s.Run(t.Context(), front, Open, nil); protocol.KindOf(err) != protocol.ShuttingDown {
			t.Errorf("a request of a node that leaves: %v", err)
		}
		close(goOn)
		<-drained
		if err := <-copied; err != nil || w.Body.Len() != 3*maxWaiting {
			t.Errorf("%d bytes, %v", w.Body.Len(), err)
		}
	})
}

// cutWriter is the ResponseWriter of a client that has disconnected.
type cutWriter struct{ *httptest.ResponseRecorder }

func (cutWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// endWriter is the ResponseWriter of a request that ends during a write.
type endWriter struct {
	*httptest.ResponseRecorder
	end context.CancelFunc
}

func (w endWriter) Write(p []byte) (int, error) {
	w.end()
	return len(p), nil
}

// If a request ends before its response, the response is reported as incomplete.
func TestRequestEndsDuringAWrite(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	if began, err := Copy(ctx, endWriter{httptest.NewRecorder(), cancel}, from(s, front), nil); !began || err == nil {
		t.Errorf("it is taken for whole: %v, %v", began, err)
	}
}

// A client that disconnects during a write leaves no stream behind, even if its node cannot reach the other
// one.
func TestClientGoesDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		if _, err := Copy(t.Context(), cutWriter{httptest.NewRecorder()}, from(s, front), nil); err == nil {
			t.Error("the write fails, and Copy does not")
		}
		if len(s.open)+len(s.of) != 0 {
			t.Errorf("%d streams are left", len(s.open))
		}
		silent := func(ctx context.Context, method string, body []byte) ([]byte, error) {
			if method == Close {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return from(s, front)(ctx, method, body)
		}
		if _, err := Copy(t.Context(), cutWriter{httptest.NewRecorder()}, silent, nil); err == nil {
			t.Error("the write fails, and Copy does not")
		}
	})
}

// pipes is a listener for pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A stream may be silent for long, over HTTP/2 too, where an expired write deadline would end an idle stream.
func TestStreamIsSilent(t *testing.T) {
	for name, use := range map[string]func(*http.Protocols){
		"HTTP/1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, "first")
					_ = http.NewResponseController(w).Flush()
					<-time.After(unread / 2)
					_, _ = io.WriteString(w, " and last")
				})
				listener := make(pipes)
				server := http.Server{
					Protocols: new(http.Protocols),
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if _, err := Copy(r.Context(), w, from(s, front), nil); err != nil {
							t.Error(err)
						}
					}),
				}
				use(server.Protocols)
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()
				client := http.Client{Transport: &http.Transport{
					Protocols: server.Protocols,
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						here, there := net.Pipe()
						listener <- there
						return here, nil
					},
				}}
				r, err := client.Get("http://front/")
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				if string(body) != "first and last" || err != nil {
					t.Errorf("%s %q, %v", r.Proto, body, err)
				}
				client.CloseIdleConnections()
				close(listener)
				_ = server.Shutdown(t.Context())
				<-served
			})
		})
	}
}
