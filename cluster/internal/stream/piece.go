// Package stream forwards HTTP requests between runs, and carries the responses back in pieces.
//
// The forwarding run requests each piece with a call. So each piece arrives exactly once even if messages are
// lost, a slow client slows the handler down, and a canceled or missing call tells the serving run that the
// client has disconnected.
package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
)

// The methods of the calls.
const (
	Open  = "stream/open"  // body: a request; result: the first piece
	More  = "stream/more"  // body: the number of a stream; result: the next piece
	Close = "stream/close" // body: the number of a stream to end
)

// piece is a part of a response.
type piece struct {
	Status int         `json:"status,omitempty"` // of the first piece
	Header http.Header `json:"header,omitempty"` // of the first piece
	Stream uint64      `json:"stream,omitempty"` // number of the stream; 0: this is the last piece
	Cut    bool        `json:"cut,omitempty"`    // the response is incomplete
	data   []byte
}

// encode returns the piece as the result of a call, or nil if p is nil.
func (p *piece) encode() []byte {
	if p == nil {
		return nil
	}
	head, _ := json.Marshal(p) // strings and numbers always encode
	return append(append(append(make([]byte, 0, len(head)+1+len(p.data)), head...), '\n'), p.data...)
}

func decode(raw []byte) (*piece, error) {
	head, data, ok := bytes.Cut(raw, []byte{'\n'})
	p := new(piece)
	if err := json.Unmarshal(head, p); !ok || err != nil {
		return nil, errors.Join(errors.New("a piece of a response cannot be read"), err)
	}
	p.data = data
	return p, nil
}
