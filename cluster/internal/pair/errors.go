package pair

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

const outcomeUnknown = "unknown"

// ErrNotReceived is returned for a call that its owner never received, and refuses if it still arrives. The call may be
// made again.
var ErrNotReceived = errors.New("the call did not come to it")

// ErrUnreachable is returned for a call to a run that does not exist.
var ErrUnreachable = errors.New("there is no such node now")

var errLeaves = errors.New("this node leaves the cluster")

// notSent is the error of a call that the owner will never run.
func notSent(reason error) error {
	e := protocol.Errorf(protocol.NotReady, "it did not get the call: %w", reason)
	e.Message += "; exthost status shows the nodes"
	return e
}

// nodeLost is the error of a call that the owner may have run.
func nodeLost(reason string) error {
	return &protocol.Error{
		Kind:    protocol.NodeLost,
		Outcome: outcomeUnknown,
		Message: reason + "; the call may have taken effect",
	}
}

// gaveUp is the error of a call that its caller gave up.
func gaveUp(ctx context.Context) error {
	return &protocol.Error{
		Kind:    protocol.KindOf(ctx.Err()),
		Outcome: outcomeUnknown,
		Message: "the caller waits no more; the call may have taken effect",
	}
}

// wireError is the wire form of [protocol.Error]. It omits what a process wrote to stderr, which stays on the node of
// the process.
type wireError struct {
	Kind      protocol.Kind      `json:"kind"`
	Message   string             `json:"message"`
	Extension string             `json:"extension,omitempty"`
	Tool      string             `json:"tool,omitempty"`
	Code      int                `json:"code,omitempty"`
	Data      json.RawMessage    `json:"data,omitempty"`
	Outcome   string             `json:"outcome,omitempty"`
	RetryMS   int64              `json:"retry_after_ms,omitempty"`
	Evidence  *protocol.Evidence `json:"evidence,omitempty"`
}

func writeError(err error) []byte {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.ExtensionError), "%s", err.Error())
		e.Outcome = outcomeUnknown
	}
	w := wireError{e.Kind, e.Message, e.Extension, e.Tool, e.Code, e.Data, e.Outcome, e.RetryAfter.Milliseconds(), nil}
	if e.Evidence != nil {
		told := *e.Evidence
		told.Stderr, told.Line = nil, ""
		w.Evidence = &told
	}
	out, err := json.Marshal(w)
	if err != nil { // Data is not JSON
		w.Data = nil
		out, _ = json.Marshal(w)
	}
	return out
}

func readError(body []byte) error {
	var w wireError
	if err := json.Unmarshal(body, &w); err != nil || !slices.Contains(protocol.Kinds(), w.Kind) {
		return &protocol.Error{
			Kind:    protocol.InvalidResponse,
			Outcome: outcomeUnknown,
			Message: "it answered with an error that this version does not know",
		}
	}
	return &protocol.Error{
		Kind:       w.Kind,
		Message:    w.Message,
		Extension:  w.Extension,
		Tool:       w.Tool,
		Code:       w.Code,
		Data:       w.Data,
		Outcome:    w.Outcome,
		RetryAfter: time.Duration(w.RetryMS) * time.Millisecond,
		Evidence:   w.Evidence,
	}
}
