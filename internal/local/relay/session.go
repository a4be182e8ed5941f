package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/exthost/exthost/protocol"
)

// session records those messages of a legacy client that a new host needs. Modern clients repeat everything in every
// request.
type session struct {
	initialize []byte // request line; nil before it
	id         string // id of initialize until it is answered
	open       bool   // initialize was answered
	ready      []byte // line of notifications/initialized; nil before it
	level      []byte // params of the last logging/setLevel, or nil
	resources  []subscription
}

// subscription is a resource that the client follows. The host's own record of it ends with the host.
type subscription struct {
	uri    string
	params []byte
}

// maxSubscriptions limits the subscriptions that are repeated to a new host; further ones are lost.
const maxSubscriptions = 1024

// sent records a line from the client.
func (s *session) sent(e *envelope, text []byte) {
	switch {
	case e.method == protocol.MethodInitialize && !s.open:
		s.initialize, s.id = bytes.Clone(text), e.id
	case e.method == protocol.MethodInitialized:
		s.ready = bytes.Clone(text)
	case e.method == protocol.MethodSetLevel:
		s.level = paramsOf(text)
	case e.method == protocol.MethodResourcesSubscribe || e.method == methodUnsubscribe:
		s.subscribe(paramsOf(text), e.method == protocol.MethodResourcesSubscribe)
	}
}

// methodUnsubscribe ends a resources/subscribe.
const methodUnsubscribe = "resources/unsubscribe"

func paramsOf(text []byte) []byte {
	var m struct{ Params json.RawMessage }
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m.Params
}

func (s *session) subscribe(params []byte, on bool) {
	var p struct{ URI string }
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.resources = slices.DeleteFunc(s.resources, func(r subscription) bool { return r.uri == p.URI })
	if on && len(s.resources) < maxSubscriptions {
		s.resources = append(s.resources, subscription{p.URI, params})
	}
}

func (s *session) received(e *envelope) {
	if s.id != "" && e.response() && e.id == s.id {
		s.open, s.id = !e.failed, ""
	}
}

// failed records requests that the relay answered with an error.
func (s *session) failed(calls []string) {
	if slices.Contains(calls, s.id) {
		s.id = ""
	}
}

// resume opens the client's session in a new host and repeats its subscriptions. The client does not see the
// responses, but is notified that all lists may have changed.
func (r *relay) resume(conn hostConn, in *lineReader) error {
	s := &r.session
	if !s.open {
		return nil
	}
	if err := conn.SetDeadline(time.Now().Add(resumeTimeout)); err != nil {
		return err
	}
	var first struct{ ID json.RawMessage }
	if err := json.Unmarshal(s.initialize, &first); err != nil {
		return err
	}
	answer, err := r.repeat(conn, in, s.initialize, string(first.ID))
	if err != nil {
		return fmt.Errorf("the new exthost does not take the session: %w", err)
	}
	if s.ready == nil {
		return conn.SetDeadline(time.Time{})
	}
	if _, err := conn.Write(s.ready); err != nil {
		return err
	}
	requests := []repeated{}
	if s.level != nil {
		requests = append(requests, repeated{protocol.MethodSetLevel, s.level})
	}
	for _, sub := range s.resources {
		requests = append(requests, repeated{protocol.MethodResourcesSubscribe, sub.params})
	}
	for i, q := range requests {
		id := strconv.Quote(fmt.Sprintf("exthost-relay-%d", i))
		text := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, q.method, q.params)
		if answer, err := r.repeat(conn, in, text, id); answer == nil {
			return err // an error response is fine: a resource may be gone
		}
	}
	r.tellChanged(answer)
	return conn.SetDeadline(time.Time{})
}

type repeated struct {
	method string
	params []byte
}

// repeat sends a request and returns the line of its response. Other lines from the host go to the client.
func (r *relay) repeat(conn io.Writer, in *lineReader, text []byte, id string) (answer []byte, err error) {
	if _, err := conn.Write(text); err != nil {
		return nil, err
	}
	var scan scanner
	for answer == nil {
		piece, failed := in.next()
		if failed != nil {
			return nil, failed
		}
		for len(piece) > 0 {
			n, ended := scan.scan(piece)
			if !ended {
				return nil, errors.New("an answer is too long")
			}
			if scan.env.response() && scan.env.id == id {
				answer = bytes.Clone(piece[:n])
				if scan.env.failed {
					err = fmt.Errorf("it answers %s", bytes.TrimSpace(answer))
				}
			} else if err := r.out.write(piece[:n]); err != nil {
				r.out.fail(r.broken, err)
				return nil, err
			}
			piece = piece[n:]
		}
	}
	return answer, err
}

// tellChanged notifies the client that lists may differ in the new host.
func (r *relay) tellChanged(initialized []byte) {
	var m struct {
		Result struct {
			Capabilities map[string]struct{ ListChanged bool }
		}
	}
	if json.Unmarshal(initialized, &m) != nil {
		return // unparsable capabilities
	}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if m.Result.Capabilities[list].ListChanged {
			r.tell(notification{Version: "2.0", Method: "notifications/" + list + "/list_changed"})
		}
	}
}
