package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

const notification = `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}`

// TestPausesAreAsLongAsTheServersAtLeast draws pauses before reconnections, part of which is random.
func TestPausesAreAsLongAsTheServersAtLeast(t *testing.T) {
	for range 1000 {
		for retry, limits := range map[time.Duration][2]time.Duration{
			0:                      {firstRetry / 2, firstRetry},
			500 * time.Millisecond: {500 * time.Millisecond, 500 * time.Millisecond},
			time.Hour:              {lastRetry, lastRetry},
		} {
			if d := (&position{retry: retry}).delay(1); d < limits[0] || d > limits[1] {
				t.Fatalf("with %v of the server: %v, want %v", retry, d, limits)
			}
		}
	}
}

// A server or proxy may end the standalone stream any number of times: the client opens it again.
func TestListenOutlivesQuietStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStreamable(t)
		requests := 0
		c.http.Transport = server(func(r *http.Request) (int, string) {
			if r.Method == http.MethodPost {
				return http.StatusAccepted, ""
			}
			if requests++; requests <= 2*maxFailures {
				return http.StatusOK, "retry: 1\n\n"
			}
			return http.StatusOK, "event: message\ndata: " + notification + "\n\n"
		})
		if err := c.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized}); err != nil {
			t.Fatal(err)
		}
		if m, err := c.Read(); err != nil || m.Method != "notifications/x" {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

// TestStreamsThatEndAtOnceAreNotResumedAtOnce measures the time between two connections of a server that states a pause
// of 1 ms. Only a stream that has lasted is resumed after that pause.
func TestStreamsThatEndAtOnceAreNotResumedAtOnce(t *testing.T) {
	for _, c := range []struct {
		stream      string
		lasts, want time.Duration
	}{
		{"retry: 1\n\n", 0, firstRetry},
		{"retry: 1\nid: 1\ndata:\n\n", 0, minInterval},
		{"retry: 1\n\n", time.Hour, time.Hour + time.Millisecond},
		{"retry: 1\nid: 1\ndata:\n\n", time.Hour, time.Hour + time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreamable(t)
			began := make(chan time.Time)
			s.http.Transport = server(func(r *http.Request) (int, string) {
				if r.Method == http.MethodPost {
					return http.StatusAccepted, ""
				}
				select {
				case began <- time.Now():
				case <-r.Context().Done():
				}
				pause(r.Context(), c.lasts)
				return http.StatusOK, c.stream
			})
			go s.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized})
			first := <-began
			if d := (<-began).Sub(first); d != c.want {
				t.Errorf("%q, which lasts %v, is resumed after %v, want %v", c.stream, c.lasts, d, c.want)
			}
		})
	}
}

// TestHandshakeWaitsForTheStandaloneStream tests that no request is sent before the server has granted or refused the
// stream, since it may ask something there before it answers. A server that answers late delays the handshake by
// openTimeout at most, and leaves the next request half of its time.
func TestHandshakeWaitsForTheStandaloneStream(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusInternalServerError} {
		for _, c := range []struct{ late, left, want time.Duration }{
			{late: openTimeout / 2, left: time.Minute, want: openTimeout / 2},
			{late: time.Minute, left: time.Minute, want: openTimeout},
			{late: time.Minute, left: openTimeout, want: openTimeout / 2},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := newStreamable(t)
				s.http.Transport = server(func(r *http.Request) (int, string) {
					if r.Method == http.MethodPost {
						return http.StatusAccepted, ""
					}
					pause(r.Context(), c.late)
					return status, ""
				})
				ctx, cancel := context.WithTimeout(t.Context(), c.left)
				defer cancel()
				began := time.Now()
				if err := s.Write(ctx, jsonrpc.Message{Method: protocol.MethodInitialized}); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d != c.want {
					t.Errorf("status %d after %v, with %v left: waited %v, want %v", status, c.late, c.left, d, c.want)
				}
			})
		}
	}
}

// TestServerWithoutStreamKeepsItsSession tests that a 404 to the GET ends no session: servers that route POST alone
// answer so.
func TestServerWithoutStreamKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamable(t)
		s.session = "1"
		s.http.Transport = server(func(r *http.Request) (int, string) {
			if r.Method == http.MethodPost {
				return http.StatusOK, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
			}
			return http.StatusNotFound, ""
		})
		if err := s.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Write(t.Context(), jsonrpc.Message{ID: []byte("1"), Method: protocol.MethodToolsList}); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Read(); err != nil || m.Error != nil || string(m.Result) != "{}" {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

// TestRefusedResumptionLosesAGrantedSession tests that a 404 to the GET that resumes a call's stream breaks the call,
// whose outcome is then unknown. It ends the session only if an earlier GET was granted.
func TestRefusedResumptionLosesAGrantedSession(t *testing.T) {
	for _, granted := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreamable(t)
			s.session = "1"
			gets := 0
			s.http.Transport = server(func(r *http.Request) (int, string) {
				if r.Method == http.MethodGet {
					if gets++; gets > granted {
						return http.StatusNotFound, ""
					}
				}
				return http.StatusOK, "id: 1\nretry: 1\ndata:\n\n"
			})
			call := jsonrpc.Message{ID: []byte("1"), Method: protocol.MethodToolsCall}
			if err := s.Write(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			m, err := s.Read()
			if _, ok := errors.AsType[*BrokenError](m.Invalid); !ok || err != nil {
				t.Errorf("after %d granted GETs the call ends with %v, %v", granted, m.Invalid, err)
			}
			synctest.Wait()
			if lost := errors.Is(s.lost, ErrSessionGone); lost != (granted > 0) {
				t.Errorf("after %d granted GETs the session is lost: %v", granted, lost)
			}
		})
	}
}

// newStreamable returns a client that the test has yet to give a server.
func newStreamable(t *testing.T) *Streamable {
	t.Helper()
	s, err := NewStreamable(Options{URL: "http://server.example"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// server answers requests without a network.
type server func(r *http.Request) (status int, stream string)

// RoundTrip implements [http.RoundTripper].
func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	status, stream := s(r)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(status)
	fmt.Fprint(w, stream)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// A stream that is refused after it was granted, for example because its token has expired, is retried until the
// credentials are accepted again, at long intervals whatever pause the server has specified.
func TestListenWaitsForOtherCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const expired = time.Hour
		began, refused := time.Now(), 0
		c := newStreamable(t)
		given := false
		c.http.Transport = server(func(r *http.Request) (int, string) {
			switch {
			case r.Method == http.MethodPost:
				return http.StatusAccepted, ""
			case !given:
				given = true
				return http.StatusOK, "id: 1\nretry: 1\ndata:\n\n"
			case time.Since(began) < expired:
				refused++
				return http.StatusUnauthorized, ""
			}
			if id := r.Header.Get("Last-Event-Id"); id != "1" {
				t.Errorf("the stream is taken up after the event %q", id)
			}
			return http.StatusOK, "data: " + notification + "\n\n"
		})
		if err := c.Write(t.Context(), jsonrpc.Message{Method: protocol.MethodInitialized}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(expired+time.Minute, func() { c.Close() })
		if m, err := c.Read(); err != nil || m.Method != "notifications/x" {
			t.Errorf("%+v, %v", m, err)
		}
		if most := int(expired / (lastRetry / 2)); refused > most+5 {
			t.Errorf("%d requests in an hour", refused)
		}
	})
}
