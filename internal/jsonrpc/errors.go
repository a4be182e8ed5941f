package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
)

// Errors of a connection.
var (
	// ErrClosed is wrapped by every error that means the conversation is over; the
	// cause, when there is one besides Close, is wrapped too.
	ErrClosed = errors.New("jsonrpc: connection closed")
	// ErrLineTooLong ends a conversation whose peer sent a line over MaxLineBytes.
	ErrLineTooLong = errors.New("jsonrpc: line too long")
	// ErrNoise ends a conversation whose peer sent too many lines that are not JSON-RPC.
	ErrNoise = errors.New("jsonrpc: too many lines that are not JSON-RPC")
	// ErrStalled ends a conversation whose peer read nothing for WriteTimeout.
	ErrStalled = errors.New("jsonrpc: peer stopped reading")
	// ErrTimeout is Call's error when its Timeout or MaxTimeout passed.
	ErrTimeout = errors.New("jsonrpc: no answer in time")
)

// InvalidResponse is Call's error for an answer that cannot be used: both result
// and error, or neither, a broken payload, no "jsonrpc":"2.0". The connection
// lives on.
type InvalidResponse struct {
	Line []byte // the frame as it was read, cut to 2 KiB
	Err  error  // what is wrong with it
}

// Error says what is wrong with the answer, without quoting it.
func (e *InvalidResponse) Error() string { return "jsonrpc: invalid response: " + e.Err.Error() }

// Unwrap returns Err.
func (e *InvalidResponse) Unwrap() error { return e.Err }

const maxEvidence = 2 << 10

func invalidResponse(m *Message, err error) *InvalidResponse {
	return &InvalidResponse{Line: bytes.Clone(m.Raw[:min(len(m.Raw), maxEvidence)]), Err: err}
}

// writtenError marks the failure of a call whose frame the peer may have seen.
type writtenError struct{ error }

func (e writtenError) Unwrap() error { return e.error }

// Written reports whether the frame of the call or notification that failed with
// err had been handed over, at least partly, so that the peer may act on it.
// Without it a retry is safe.
func Written(err error) bool {
	var w writtenError
	var answer *Error
	var invalid *InvalidResponse
	return errors.As(err, &w) || errors.As(err, &answer) || errors.As(err, &invalid)
}

// MaybeWritten returns err so that [Written] reports true: for transports.
func MaybeWritten(err error) error { return writtenError{err} }

// closed returns ErrClosed with its cause.
func closed(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrClosed, cause)
}
