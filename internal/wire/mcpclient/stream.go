package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/sse"
)

const (
	firstRetry = time.Second // before the first reconnection, unless the server specifies it
	lastRetry  = 30 * time.Second
	// minInterval is the shortest time from one connection of a stream to the next, whatever pause the server
	// specifies; after a connection without an event it is firstRetry. A stream that has lasted is resumed after the
	// server's pause.
	minInterval = 100 * time.Millisecond
	// maxFailures is the max number of consecutive failed reconnections. One failure more ends the
	// call of the stream; on the standalone stream it ends the transport.
	maxFailures = 4
	// openTimeout bounds the wait for the standalone stream. Some servers send no headers before the first event.
	openTimeout = time.Second
)

// position is where to resume a stream.
type position struct {
	lastID    string        // of the last event; "" if events have no ids
	retry     time.Duration // pause specified by the server
	connected bool          // the last reconnection got a stream
	began     time.Time     // of the last connection
	brought   bool          // the last connection brought an event
}

// handleStream delivers the messages of the answer to x. A legacy stream that ends early is resumed by a GET with the
// id of its last event, if there is one. The server has accepted x, so what ends the attempts is a *BrokenError, unless
// x was given up: after another error x might be sent again.
func (s *Streamable) handleStream(x *exchange, resp *http.Response) error {
	at := position{began: time.Now()}
	done, err := s.readEvents(resp, &at, x)
	for failures := 0; !done; {
		if at.lastID == "" || x.modern || errors.Is(err, sse.ErrTooLarge) {
			return &BrokenError{"the stream ended before the answer", err}
		}
		if at.connected {
			failures = 0
		}
		if failures++; failures > maxFailures {
			return &BrokenError{"the stream ended before the answer and could not be taken up again", err}
		}
		if !pause(x.ctx, at.delay(failures)) {
			return context.Cause(x.ctx)
		}
		if done, err = s.resume(x.ctx, &at, x, func() {}); errors.Is(err, ErrSessionGone) {
			s.loseGranted(err)
			return &BrokenError{What: "the stream ended before the answer, and the server does not take it up again"}
		}
	}
	return nil
}

// open opens the session's standalone stream. It waits until the server has answered or the request has failed, for up
// to openTimeout and half of the time that ctx has left. While there is no such stream, many servers drop what they
// send outside of a request. If that is a question, the call that waits for its answer hangs.
func (s *Streamable) open(ctx context.Context) {
	limit := openTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	waiting, answered := context.WithTimeout(ctx, limit)
	defer context.AfterFunc(s.ctx, answered)()
	s.tasks.Go(func() { s.listen(answered) })
	<-waiting.Done()
}

// listen keeps the session's standalone stream open. It calls answered each time that the stream is open or has failed.
// If the server later refuses the credentials, for example because a token has expired, listen retries until they are
// accepted again.
func (s *Streamable) listen(answered func()) {
	var at position
	for failures := 0; ; {
		_, err := s.resume(s.ctx, &at, nil, answered)
		waits := s.isGranted() && wantsCredentials(err)
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, ErrSessionGone):
			s.loseGranted(err)
			return
		case waits:
		case refusesStream(err):
			if at.lastID == "" {
				return // the server has no standalone stream; it is optional
			}
			at.lastID = "" // the server no longer keeps that event
		}
		if at.connected {
			failures = 0
		}
		if failures++; err != nil && failures > maxFailures && !waits {
			s.failOn(err)
			return
		}
		wait := at
		if waits {
			wait.retry = 0 // the server's pause applies to granted streams only
		}
		if !pause(s.ctx, wait.delay(failures)) {
			return
		}
	}
}

// loseGranted ends the transport after a GET that failed with gone, if the session has had a stream by GET. Otherwise
// the server may have no route for GET, and the next request finds out whether the session is gone.
func (s *Streamable) loseGranted(gone error) {
	if s.isGranted() {
		s.lose(gone)
	}
}

func (s *Streamable) isGranted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted
}

// wantsCredentials reports whether a request failed for missing or refused credentials.
func wantsCredentials(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code == http.StatusUnauthorized
	}
	_, ok := errors.AsType[*CredentialsError](err)
	return ok
}

// refusesStream reports whether a server refuses the stream, as opposed to failing for the moment.
func refusesStream(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Code < 500 && status.Code != http.StatusTooManyRequests
}

// resume opens a stream and delivers its messages: the stream of x, or the standalone one if x is nil. It calls
// answered when the stream is open or has failed. done reports whether the response to x was among the messages.
func (s *Streamable) resume(ctx context.Context, at *position, x *exchange, answered func()) (done bool, err error) {
	resp, err := s.connect(ctx, at)
	answered()
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	return s.readEvents(resp, at, x)
}

// connect opens a stream that continues at a position. The caller closes its body.
func (s *Streamable) connect(ctx context.Context, at *position) (*http.Response, error) {
	h := http.Header{"Accept": {"text/event-stream"}}
	s.mu.Lock()
	s.setSessionLocked(h)
	s.mu.Unlock()
	if at.lastID != "" {
		h["Last-Event-Id"] = []string{at.lastID}
	}
	at.connected, at.began, at.brought = false, time.Now(), false
	r, err := s.newRequest(ctx, http.MethodGet, s.url, nil, h)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(r, func() {})
	if err != nil {
		return nil, err
	}
	err = s.checkStatus(resp)
	if media := mediaType(resp); err == nil && media != "text/event-stream" {
		err = &StatusError{
			Code: http.StatusMethodNotAllowed,
			Text: "the server answered a GET with content type " + quoted(media),
		}
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	at.connected = true
	s.mu.Lock()
	s.granted = true
	s.mu.Unlock()
	return resp, nil
}

// readEvents delivers the messages of one connection. done reports whether the response to x was among them.
func (s *Streamable) readEvents(resp *http.Response, at *position, x *exchange) (done bool, err error) {
	events := sse.NewReader(resp.Body, s.o.MaxBytes)
	events.LastID, events.Retry = at.lastID, at.retry
	for {
		event, err := events.Next()
		at.lastID, at.retry = events.LastID, events.Retry
		if err != nil {
			return false, err
		}
		at.brought = true
		m, ok := messageOf(&event)
		switch {
		case !ok:
		case x == nil:
			if m.Method == "" {
				m.Of = noRequest
			}
			s.deliver(m)
		default:
			done = m.Method == "" && x.isAnsweredBy(&m)
			if s.deliverFor(x, m); done {
				return true, nil
			}
		}
	}
}

// noRequest is Message.Of on the standalone stream: an error without an id answers no call there.
var noRequest = json.RawMessage("null")

// messageOf returns the message in an event; ok is false if there is none.
func messageOf(e *sse.Event) (m jsonrpc.Message, ok bool) {
	if len(e.Data) == 0 || e.Name != "" && e.Name != "message" {
		return jsonrpc.Message{}, false
	}
	m, err := jsonrpc.Decode(e.Data)
	return m, err == nil
}

// delay returns the pause before a reconnection: the server's, doubled for each consecutive failure, half of it
// random. It is never shorter than the server's, which a client must respect, and ends at the earliest when the
// interval of connections has passed.
func (p *position) delay(failures int) time.Duration {
	d := firstRetry
	if p.retry > 0 {
		d = p.retry
	}
	d = min(d<<min(failures-1, 5), lastRetry)
	interval := firstRetry
	if p.brought {
		interval = minInterval
	}
	return max(d/2+rand.N(d/2+1), min(p.retry, lastRetry), interval-time.Since(p.began))
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// mediaType returns the content type of r without parameters.
func mediaType(r *http.Response) string {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media
}

func quoted(text string) string { return strconv.Quote(text) }
