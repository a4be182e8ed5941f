package jsonrpc

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// TestLooseMessages has a peer ask without saying for which call: the only owner
// there is gets the question, and with several nobody.
func TestLooseMessages(t *testing.T) {
	var ada, eve any = "ada", "eve"
	type flight struct {
		owner     any
		listens   bool
		abandoned time.Duration // so long ago; 0 is in flight
	}
	for name, test := range map[string]struct {
		flights []flight
		of      int    // the flight on whose stream it comes, from 1; 0 is none
		want    string // the owner who is asked; "" nobody
	}{
		"nobody there":               {nil, 0, ""},
		"one":                        {[]flight{{ada, true, 0}}, 0, "ada"},
		"two of one":                 {[]flight{{ada, true, 0}, {ada, true, 0}}, 0, "ada"},
		"two":                        {[]flight{{ada, true, 0}, {eve, true, 0}}, 0, ""},
		"one, and one of the host's": {[]flight{{nil, true, 0}, {ada, true, 0}}, 0, "ada"},
		"one who cannot be asked":    {[]flight{{ada, false, 0}}, 0, ""},
		"one of two cannot be asked": {[]flight{{ada, true, 0}, {eve, false, 0}}, 0, ""},
		"one, after another left":    {[]flight{{eve, true, time.Second}, {ada, true, 0}}, 0, ""},
		"one, long after":            {[]flight{{eve, true, 2 * time.Minute}, {ada, true, 0}}, 0, "ada"},
		"one who left before":        {[]flight{{ada, true, time.Second}, {ada, true, 0}}, 0, "ada"},
		"two, on one's stream":       {[]flight{{ada, true, 0}, {eve, true, 0}}, 1, "ada"},
		"on the stream of the past":  {[]flight{{eve, true, time.Second}, {ada, true, 0}}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{
				Loose:  func(m *Message) bool { return m.Method != "tight" },
				Handle: func(context.Context, *Message) (json.RawMessage, error) { return json.RawMessage(`""`), nil },
			}
			bubble(t, o, func(t *testing.T, c *Conn, w *wire) {
				var ids []json.RawMessage
				for _, f := range test.flights {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					o := &CallOptions{Owner: f.owner}
					if f.listens {
						o.OnMessage = func(context.Context, *Message) (json.RawMessage, error) { return json.Marshal(f.owner) }
					}
					call(ctx, c, "1", o)
					ids = append(ids, (<-w.fromConn).ID)
					if f.abandoned > 0 {
						cancel()
						synctest.Wait()
						time.Sleep(f.abandoned)
					}
				}
				question := Message{ID: json.RawMessage(`"q"`), Method: "ask"}
				if test.of > 0 {
					question.Of = ids[test.of-1]
				}
				w.toConn <- question
				got := <-w.fromConn
				if want, _ := json.Marshal(test.want); string(got.Result) != string(want) && !(got.Error != nil && test.want == "") {
					t.Errorf("answered by %s (%s), want %s", got.Result, got.Error, want)
				}
				question.Method, question.Of = "tight", nil
				w.toConn <- question
				if got := <-w.fromConn; string(got.Result) != `""` {
					t.Errorf("what is about no call was answered by %s", got.Result)
				}
			})
		})
	}
}
