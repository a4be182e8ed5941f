// Package stream carries the response to an HTTP request from the run that serves it to another
// run, piece by piece.
//
// The run that got the request asks for each piece by a call. So a piece has the one outcome of a
// call whatever the connection loses, a slow client slows the server down, and a call that is
// canceled, or that does not come, says that the client is gone.
package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
)

// The methods of the calls.
const (
	Open  = "stream/open"  // the body is a request; the result is the first piece
	More  = "stream/more"  // the body is the number of a stream; the result is the next piece
	Close = "stream/close" // the body is the number of a stream, which nobody reads any more
)

// piece is a part of a response.
type piece struct {
	Status int         `json:"status,omitempty"` // of the first piece
	Header http.Header `json:"header,omitempty"` // of the first piece
	Stream uint64      `json:"stream,omitempty"` // has more pieces; 0: this is the last one
	Cut    bool        `json:"cut,omitempty"`    // the response has no proper end
	data   []byte
}

func (p *piece) encode() []byte {
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
