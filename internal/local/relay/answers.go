package relay

import (
	"encoding/json"

	"github.com/exthost/exthost/protocol"
)

// lost is the error for a request whose host ended before answering.
func lost() *protocol.Error {
	e := protocol.Errorf(protocol.ShuttingDown,
		"the host that ran this has ended before it answered; the request may have had its effect, and the next one "+
			"reaches a new host")
	e.Outcome = "unknown"
	return e
}

// cut is the error for a request that no host received completely.
func cut() *protocol.Error {
	return protocol.Errorf(protocol.ShuttingDown,
		"the host has ended before this request was complete, and nothing of it has run; the next one reaches a new "+
			"host")
}

// tooLong is the error for a request over MaxLine.
func tooLong() *protocol.Error {
	return protocol.Errorf(protocol.LineTooLong, "the request has more than %d MiB, and nothing of it has run",
		MaxLine>>20)
}

// unreachable is the error for a request while no host can be reached.
func unreachable(err error) *protocol.Error {
	return protocol.Errorf(protocol.NotReady, "there is no host that could run this: %w", err)
}

// response is an error response of the relay itself.
type response struct {
	Version string             `json:"jsonrpc"`
	ID      json.RawMessage    `json:"id"`
	Error   protocol.WireError `json:"error"`
}

// notification is a notification of the relay itself.
type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

type cancelled struct {
	ID     json.RawMessage `json:"requestId"`
	Reason string          `json:"reason"`
}
