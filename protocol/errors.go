package protocol

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind classifies an error. The set is closed; its strings and JSON-RPC codes never change, and are the same in
// Go, JSON, the CLI and MCP.
type Kind string

// The kinds, each with its cause.
const (
	InvalidJSON        Kind = "invalid_json"        // a frame or payload is not JSON
	InvalidResponse    Kind = "invalid_response"    // a frame is JSON but not a valid answer
	ProtocolVersion    Kind = "protocol_version"    // the two sides have no version in common
	ToolNotFound       Kind = "tool_not_found"      // no such tool, method or extension
	InvalidArguments   Kind = "invalid_arguments"   // arguments do not match the tool's schema
	ManifestInvalid    Kind = "manifest_invalid"    // plugin.toml or its sidecar cannot be used
	ConfigInvalid      Kind = "config_invalid"      // a host configuration file cannot be used
	RequirementMissing Kind = "requirement_missing" // a bin, variable, os, arch or host version is missing
	Untrusted          Kind = "untrusted"           // the operator has not approved this extension
	DescriptorChanged  Kind = "descriptor_changed"  // a tool differs from the approved one
	SpawnFailed        Kind = "spawn_failed"        // the process could not be started
	HandshakeTimeout   Kind = "handshake_timeout"   // no answer to the handshake within start_timeout
	HandshakeInvalid   Kind = "handshake_invalid"   // the answer to the handshake cannot be used
	ChildExited        Kind = "child_exited"        // the process ended before it answered
	LineTooLong        Kind = "line_too_long"       // a frame is longer than max_line_bytes
	StdoutClosed       Kind = "stdout_closed"       // the process runs but closed its stdout
	WriteStalled       Kind = "write_stalled"       // the process stopped reading its stdin
	CallTimeout        Kind = "call_timeout"        // no answer within call_timeout
	Canceled           Kind = "canceled"            // the caller canceled the call
	Overloaded         Kind = "overloaded"          // max_in_flight and max_queue are full
	BreakerOpen        Kind = "breaker_open"        // the circuit breaker refuses calls for now
	NotReady           Kind = "not_ready"           // the extension is starting or restarting
	// it did not start, or used up its restarts; it is retried occasionally, or by an operator
	Failed                Kind = "failed"
	ShuttingDown          Kind = "shutting_down"          // the host or the extension is stopping
	Rejected              Kind = "rejected"               // a policy or hook denied it
	GovernanceUnavailable Kind = "governance_unavailable" // a required policy could not decide
	NodeLost              Kind = "node_lost"              // the node with the call is gone or silent
	ExtensionError        Kind = "extension_error"        // the extension's own error: its code and data
)

// ErrNoTask is the cause of an [InvalidArguments] error about an unknown task.
var ErrNoTask = errors.New("there is no task")

// codes never change. -32000 is missing, because extensions use it for their own errors.
var codes = map[Kind]int{
	InvalidJSON:           -32700,
	InvalidResponse:       -32600,
	ProtocolVersion:       -32600,
	ToolNotFound:          -32601,
	InvalidArguments:      -32602,
	ManifestInvalid:       -32001,
	ConfigInvalid:         -32003,
	RequirementMissing:    -32004,
	Untrusted:             -32005,
	DescriptorChanged:     -32006,
	SpawnFailed:           -32007,
	HandshakeTimeout:      -32008,
	HandshakeInvalid:      -32009,
	ChildExited:           -32010,
	LineTooLong:           -32011,
	StdoutClosed:          -32012,
	WriteStalled:          -32013,
	CallTimeout:           -32014,
	Canceled:              -32015,
	Overloaded:            -32016,
	BreakerOpen:           -32017,
	NotReady:              -32018,
	Failed:                -32019,
	ShuttingDown:          -32030,
	Rejected:              -32031,
	GovernanceUnavailable: -32032,
	NodeLost:              -32033,
}

// Kinds returns all kinds in the order of the documentation.
func Kinds() []Kind {
	return []Kind{InvalidJSON, InvalidResponse, ProtocolVersion, ToolNotFound, InvalidArguments,
		ManifestInvalid, ConfigInvalid, RequirementMissing, Untrusted, DescriptorChanged, SpawnFailed,
		HandshakeTimeout, HandshakeInvalid, ChildExited, LineTooLong, StdoutClosed, WriteStalled,
		CallTimeout, Canceled, Overloaded, BreakerOpen, NotReady, Failed, ShuttingDown, Rejected,
		GovernanceUnavailable, NodeLost, ExtensionError}
}

// Code returns the kind's JSON-RPC error code. [ExtensionError] reports -32603, JSON-RPC's internal error.
func (k Kind) Code() int {
	if c, ok := codes[k]; ok {
		return c
	}
	return -32603
}

// Error is the host's error type. Message says what happened and, if known, what to do next.
type Error struct {
	Kind      Kind
	Message   string
	Extension string // the id of the failed extension; "" if none failed
	Tool      string // the registered tool name; "" outside a tool call

	// Code is the extension's own code of an ExtensionError, which replaces Kind.Code on the wire.
	Code int
	// Data is the extension's error data, or details for programs.
	Data json.RawMessage
	// Outcome is "unknown" if the extension may have received the request and acted on it. That holds however the call
	// ended, for example with a policy that withholds the result. "" promises that the extension never received the
	// request and never will, so a retry is safe. An ExtensionError is the extension's own answer and has no Outcome.
	Outcome string
	// Next is the operator's next step, with which Message ends; "" if it names none. It is stated apart because the
	// end of a Message may quote an extension. It is not sent.
	Next string
	// RetryAfter is the time after which a retry may succeed; 0 if unknown.
	RetryAfter time.Duration
	// Evidence describes the process that failed; nil if none did.
	Evidence *Evidence

	cause error
}

// Evidence describes how a process failed.
type Evidence struct {
	ExitCode    *int     `json:"exit_code,omitempty"`
	Signal      string   `json:"signal,omitempty"`
	Stderr      []string `json:"stderr,omitempty"` // the last lines; never sent to MCP clients
	Line        string   `json:"line,omitempty"`   // the offending frame, cut to 2 KiB; never sent to MCP clients
	Attempt     int      `json:"attempt,omitempty"`
	MaxAttempts int      `json:"max_attempts,omitempty"`
	NextRetry   Duration `json:"next_retry_ms,omitempty"`
}

// errorWords mark lines of stderr that name an error.
var errorWords = []string{"error", "exception", "panic", "fatal", "fail", "cannot", "can't", "no such", "not found",
	"denied", "refused", "missing"}

// namesError reports whether a line of stderr names an error. Indented lines do not: they are positions of a stack
// trace.
func namesError(line string) bool {
	lower := strings.ToLower(line)
	return strings.TrimLeft(line, " \t") == line &&
		slices.ContainsFunc(errorWords, func(word string) bool { return strings.Contains(lower, word) })
}

// launcherWords mark lines of a package manager that do not explain the error.
var launcherWords = []string{"A complete log of this run can be found in", "npm notice", "npm warn"}

// npmError returns the line of npm's report that names the error: the first after the line with the code. The lines
// after it are advice.
func (e *Evidence) npmError() string {
	after := false
	for _, line := range e.Stderr {
		words, ok := strings.CutPrefix(line, "npm error ")
		if !ok {
			words, ok = strings.CutPrefix(line, "npm ERR! ") // before npm 10
		}
		switch {
		case ok && after:
			return line
		case ok:
			after = strings.HasPrefix(words, "code ")
		}
	}
	return ""
}

// Complaint returns the line of Stderr that most likely names the error: the last with a word such as "error", else the
// last line. The last line alone would not do, because stack traces may end with positions.
func (e *Evidence) Complaint() (last string) {
	if line := e.npmError(); line != "" {
		return line
	}
	for _, line := range slices.Backward(e.Stderr) {
		if slices.ContainsFunc(launcherWords, func(words string) bool { return strings.Contains(line, words) }) {
			continue
		}
		if namesError(line) {
			return line
		}
		last = cmp.Or(last, strings.TrimSpace(line))
	}
	return last
}

// Errorf returns an *Error. A %w operand becomes its cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Error returns the tool or extension, the message and the kind.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Tool != "":
		b.WriteString(e.Tool + ": ")
	case e.Extension != "":
		b.WriteString(e.Extension + ": ")
	}
	b.WriteString(e.Message)
	b.WriteString(" (" + string(e.Kind) + ")")
	return b.String()
}

// Unwrap returns the cause given to [Errorf] with %w.
func (e *Error) Unwrap() error { return e.cause }

// Is matches an *Error of the same kind, as in errors.Is(err, &protocol.Error{Kind: protocol.CallTimeout}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

// KindOf returns the kind of an *Error, Canceled or CallTimeout for the errors of package context, else "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		return e.Kind
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return CallTimeout
	}
	return ""
}

// WireError is a JSON-RPC error object.
type WireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// errorData is the data of the host's own errors.
type errorData struct {
	Kind         Kind            `json:"kind"`
	Extension    string          `json:"extension,omitempty"`
	Tool         string          `json:"tool,omitempty"`
	Outcome      string          `json:"outcome,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	ExitCode     *int            `json:"exit_code,omitempty"`
	Signal       string          `json:"signal,omitempty"`
	LineBytes    int             `json:"line_bytes,omitempty"` // length of Evidence.Line, which may be cut
}

// Wire returns e as a JSON-RPC error object. An ExtensionError keeps the extension's code and data, unless it has
// an Outcome: then it is not the extension's answer. Stderr and the offending frame are left out, because they may
// contain secrets and no policy has seen them.
func (e *Error) Wire() WireError {
	code := e.Kind.Code()
	if e.Kind == ExtensionError {
		code = cmp.Or(e.Code, code)
		if e.Outcome == "" {
			return WireError{Code: code, Message: e.Message, Data: e.Data}
		}
	}
	d := errorData{
		Kind:         e.Kind,
		Extension:    e.Extension,
		Tool:         e.Tool,
		Outcome:      e.Outcome,
		RetryAfterMS: e.RetryAfter.Milliseconds(),
		Details:      e.Data,
	}
	if ev := e.Evidence; ev != nil {
		d.ExitCode, d.Signal, d.LineBytes = ev.ExitCode, ev.Signal, len(ev.Line)
	}
	data, err := json.Marshal(d)
	if err != nil { // Data is not JSON
		d.Details = nil
		data, _ = json.Marshal(d)
	}
	return WireError{Code: code, Message: e.Error(), Data: data}
}
