package console

import (
	"errors"
	"fmt"

	"github.com/exthost/exthost/protocol"
)

// The exit codes, frozen: scripts depend on them.
const (
	ExitOK        = 0
	ExitFailed    = 1
	ExitUsage     = 2
	ExitInvalid   = 3 // a config or manifest is invalid
	ExitNotFound  = 4
	ExitGated     = 5 // something the extension requires is missing
	ExitDenied    = 6 // denied by a policy or by the operator's configuration
	ExitExtension = 7 // the extension or its tool reports an error
	ExitCanceled  = 8 // timeout or cancelled
	ExitDoctor    = 9 // doctor found failures
)

// Error is an error with its exit code. An empty Text means that the command has
// printed everything already.
type Error struct {
	Code int
	Text string
	Hint string // the next command; "": there is none
}

func (e *Error) Error() string { return e.Text }

// Usagef is an error in how the program was called, with the next command.
func Usagef(hint, format string, args ...any) error {
	return &Error{Code: ExitUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Reported is the error of a command that has printed everything already.
func Reported(code int) error { return &Error{Code: code} }

// ExitCode is the code with which the program exits over err.
func ExitCode(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	if kind := protocol.KindOf(err); kind != "" {
		return KindCode(kind)
	}
	return ExitFailed
}

// KindCode is [ExitCode] for an error of the host.
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
