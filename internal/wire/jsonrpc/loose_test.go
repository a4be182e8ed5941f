package jsonrpc

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// TestLooseMessages sends requests that name no call. They go to the only owner of calls, or to no call if there are
// several owners.
func TestLooseMessages(t *testing.T) {
	var ada, eve any = "ada", "eve"
	type inFlight struct {
		owner     any
		listens   bool
		abandoned time.Duration // time since it was abandoned; 0: in flight
	}
	for name, test := range map[string]struct {
		calls []inFlight
		of    int    // the call on whose stream the request arrives, from 1; 0: none
		want  string // the owner of the call that gets the request; "": none
	}{
		"nobody there":               {nil, 0, ""},
		"one":                        {[]inFlight{{ada, true, 0}}, 0, "ada"},
		"two of one":                 {[]inFlight{{ada, true, 0}, {ada, true, 0}}, 0, "ada"},
		"two":                        {[]inFlight{{ada, true, 0}, {eve, true, 0}}, 0, ""},
		"one, and one of the host's": {[]inFlight{{nil, true, 0}, {ada, true, 0}}, 0, "ada"},
		"one who cannot be asked":    {[]inFlight{{ada, false, 0}}, 0, ""},
		"one of two cannot be asked": {[]inFlight{{ada, true, 0}, {eve, false, 0}}, 0, ""},
		"one, after another left":    {[]inFlight{{eve, true, time.Second}, {ada, true, 0}}, 0, ""},
		"one, long after":            {[]inFlight{{eve, true, 2 * time.Minute}, {ada, true, 0}}, 0, "ada"},
		"one who left before":        {[]inFlight{{ada, true, time.Second}, {ada, true, 0}}, 0, "ada"},
		"two, on one's stream":       {[]inFlight{{ada, true, 0}, {eve, true, 0}}, 1, "ada"},
		"on the stream of the past":  {[]inFlight{{eve, true, time.Second}, {ada, true, 0}}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{
				Loose:  func(m *Message) bool { return m.Method != "tight" },
				Handle: func(context.Context, *Message) (json.RawMessage, error) { return json.RawMessage(`""`), nil },
			}
			bubble(t, o, func(t *testing.T, c *Conn, w *wire) {
				var ids []json.RawMessage
				for _, f := range test.calls {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					o := &CallOptions{Owner: f.owner}
					if f.listens {
						o.OnMessage = func(context.Context, *Message) (json.RawMessage, error) {
							return json.Marshal(f.owner)
						}
					}
					call(ctx, c, "1", o)
					ids = append(ids, (<-w.fromConn).ID)
					if f.abandoned > 0 {
						cancel()
						synctest.Wait()
						time.Sleep(f.abandoned)
					}
				}
				request := Message{ID: json.RawMessage(`"q"`), Method: "ask"}
				if test.of > 0 {
					request.Of = ids[test.of-1]
				}
				w.toConn <- request
				got := <-w.fromConn
				if want, _ := json.Marshal(test.want); string(got.Result) != string(want) &&
					!(got.Error != nil && test.want == "") {
					t.Errorf("answered by %s (%s), want %s", got.Result, got.Error, want)
				}
				request.Method, request.Of = "tight", nil
				w.toConn <- request
				if got := <-w.fromConn; string(got.Result) != `""` {
					t.Errorf("what is about no call was answered by %s", got.Result)
				}
			})
		})
	}
}
