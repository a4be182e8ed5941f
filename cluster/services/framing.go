package services

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

// framing is a value of manifest.Transport.Framing.
type framing string

// wrap returns the message for a line that is published to subject.
func (f framing) wrap(subject string, line []byte) []byte {
	if f != manifest.FramingNexo {
		return line
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	b := fmt.Appendf(make([]byte, 0, len(line)+len(line)/8+160),
		`{"id":"%x-%x-%x-%x-%x","topic":"%s","reply_to":null,"payload":`, id[:4], id[4:6], id[6:8], id[8:10], id[10:],
		subject)
	return append(rawjson.AppendText(b, string(line)), '}')
}

var errEnvelope = errors.New("no line of JSON-RPC is its payload, which framing = nexo expects")

// unwrap returns the line in a message; with nexo framing it is the payload, as a string or an object.
func (f framing) unwrap(message []byte) ([]byte, error) {
	message = bytes.TrimSpace(message)
	if f != manifest.FramingNexo {
		return message, nil
	}
	if rawjson.Check(message) != nil {
		return message, errEnvelope
	}
	switch payload := rawjson.Get(message, "payload"); {
	case len(payload) > 0 && payload[0] == '{':
		return payload, nil
	case len(payload) > 0 && payload[0] == '"':
		text, ok := rawjson.Text(payload)
		if ok {
			return bytes.TrimSpace([]byte(text)), nil
		}
	}
	return message, errEnvelope
}
