package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
)

// Errors of a connection.
var (
	// ErrClosed is wrapped by every error caused by the end of the connection. Such an error also wraps the reason,
	// if there is one other than Close.
	ErrClosed = errors.New("jsonrpc: connection closed")
	// ErrTimeout is returned by Call after Timeout or MaxTimeout.
	ErrTimeout = errors.New("jsonrpc: no answer in time")
)

// InvalidResponse is returned by Call for an unusable answer: both result and error or neither, a broken payload, or
// no "jsonrpc":"2.0". The connection stays open.
type InvalidResponse struct {
	Line []byte // the raw frame, cut after 2 KiB and one byte if it is longer
	Err  error  // the fault
}

// Error describes the fault without quoting the frame.
func (e *InvalidResponse) Error() string { return "jsonrpc: invalid response: " + e.Err.Error() }

// Unwrap returns Err.
func (e *InvalidResponse) Unwrap() error { return e.Err }

const maxEvidence = 2<<10 + 1

func invalidResponse(m *Message, err error) *InvalidResponse {
	return &InvalidResponse{Line: bytes.Clone(m.Raw[:min(len(m.Raw), maxEvidence)]), Err: err}
}

// writtenError wraps the error of a call whose frame the peer may have seen.
type writtenError struct{ error }

func (e writtenError) Unwrap() error { return e.error }

// Written reports whether the call or notification that failed with err was written, at least in part, so that the
// peer may act on it. If not, a retry is safe.
func Written(err error) bool {
	var w writtenError
	var answer *Error
	var invalid *InvalidResponse
	return errors.As(err, &w) || errors.As(err, &answer) || errors.As(err, &invalid)
}

// MaybeWritten wraps err so that [Written] reports true. Transports use it.
func MaybeWritten(err error) error { return writtenError{err} }

func closed(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrClosed, cause)
}
