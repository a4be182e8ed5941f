package console

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// The exit codes are frozen: scripts depend on them.
const (
	ExitOK        = 0
	ExitFailed    = 1
	ExitUsage     = 2
	ExitInvalid   = 3 // invalid configuration or manifest
	ExitNotFound  = 4
	ExitGated     = 5 // an extension's requirement is missing
	ExitDenied    = 6 // by a policy or by the operator's configuration
	ExitExtension = 7 // an error of the extension or its tool
	ExitCanceled  = 8 // timeout or cancellation
	ExitChecks    = 9 // check found failures

	ExitNotYet      = 10 // status --ready: no host runs yet, or it or an extension is still starting
	ExitBlocked     = 11 // status --ready: no call passes, or what is required, or the owner of a tool, cannot run
	ExitUnknownTool = 12 // status --ready: there is no tool of that name
)

// Error is an error with its exit code. An empty Text means that everything is printed already.
type Error struct {
	Code  int
	Text  string
	Hint  string // the next command; "": none
	Cause error  // the error behind Text, for programs; may be nil
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Cause }

// Usagef returns the error for a wrong command line. hint is the next command.
func Usagef(hint, format string, args ...any) error {
	return &Error{Code: ExitUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Reported returns an error for a command that has printed everything already.
func Reported(code int) error { return &Error{Code: code} }

// ExitCode returns the exit code for err, which is not nil.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if kind := protocol.KindOf(err); kind != "" {
		return KindCode(kind)
	}
	return ExitFailed
}

// KindCode returns the exit code for an error of the host.
func KindCode(kind protocol.Kind) int {
	switch kind {
	case protocol.ManifestInvalid, protocol.ConfigInvalid:
		return ExitInvalid
	case protocol.ToolNotFound:
		return ExitNotFound
	case protocol.RequirementMissing:
		return ExitGated
	case protocol.Rejected, protocol.Untrusted, protocol.DescriptorChanged, protocol.GovernanceUnavailable:
		return ExitDenied
	case protocol.CallTimeout, protocol.Canceled, protocol.HandshakeTimeout:
		return ExitCanceled
	case protocol.InvalidArguments:
		return ExitUsage
	}
	return ExitExtension
}

// Describe renders err for a person: the error, its cause, and the next command on a line of its own; "" for
// [Reported].
func Describe(err error) string {
	var lines []string
	var exit *Error
	var e *protocol.Error
	switch {
	case errors.As(err, &exit):
		if exit.Text == "" {
			return ""
		}
		lines = append(lines, exit.Text)
		if exit.Hint != "" {
			lines = append(lines, "  next: "+exit.Hint)
		}
	case errors.As(err, &e):
		lines = DescribeKind(e)
		if next := NextCommand(e); next != "" {
			lines = append(lines, "  next: "+next)
		}
	case errors.Is(err, context.Canceled):
		lines = append(lines, "interrupted")
	default:
		lines = append(lines, err.Error())
		if file.IsFull(err) {
			lines = append(lines, "  next: "+makeRoom)
		}
	}
	return SafeText(strings.Join(lines, "\n"))
}

// DescribeKind returns the lines of [Describe] for an error of the host, but the next command. They are not yet safe
// for a terminal.
func DescribeKind(e *protocol.Error) []string {
	lines := []string{e.Error()}
	for _, line := range LastWords(e.Evidence) {
		if !strings.Contains(e.Message, strings.TrimPrefix(line, "  stderr: ")) {
			lines = append(lines, line)
		}
	}
	if e.Outcome == "unknown" && !strings.Contains(e.Message, "may have") { // unless the message says so already
		lines = append(lines, "  the extension had been asked and may have acted")
	}
	if e.RetryAfter > 0 {
		lines = append(lines, "  retry after "+Span(e.RetryAfter))
	}
	return lines
}

// makeRoom is what to do after an error for which [file.IsFull] is true.
const makeRoom = "make room on that disk, and try again"

// NextCommand returns the most helpful command after an error of a running host, "" if there is none.
func NextCommand(e *protocol.Error) string {
	switch {
	case file.IsFull(e):
		return makeRoom
	case e.Kind == protocol.InvalidArguments && e.Tool != "":
		return "exthost tools schema " + e.Tool
	case e.Kind == protocol.Failed && e.Extension != "":
		return "fix it, then exthost restart " + e.Extension
	case e.Kind == protocol.CallTimeout && e.Extension != "":
		return "exthost restart " + e.Extension + " if it hangs; raise call_timeout under [runtime] if it is only slow"
	case KindCode(e.Kind) == ExitExtension && e.Kind != protocol.ExtensionError && e.Extension != "":
		return lookAt(e.Extension)
	case e.Kind == protocol.Untrusted && e.Outcome == "": // after a call there may be nothing to agree to
		return strings.TrimRight("exthost trust "+e.Extension, " ")
	case KindCode(e.Kind) == ExitInvalid:
		return "exthost config show --origin"
	}
	return ""
}

// lookAt returns the command that shows why a process of an extension or a policy fails.
func lookAt(id string) string {
	if strings.HasPrefix(id, status.PolicyPrefix) { // exthost status knows extensions only
		return "exthost logs " + id
	}
	return "exthost status " + id
}

// LastWords returns the last stderr lines of a failed process, and its invalid stdout line.
func LastWords(e *protocol.Evidence) []string {
	if e == nil {
		return nil
	}
	lines := make([]string, 0, len(e.Stderr)+1)
	for _, line := range e.Stderr {
		lines = append(lines, "  stderr: "+line)
	}
	if e.Line != "" {
		lines = append(lines, "  stdout: "+e.Line)
	}
	return lines
}
