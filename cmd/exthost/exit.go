package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// The exit codes, frozen: scripts depend on them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitInvalid   = 3 // a config or manifest is invalid
	exitNotFound  = 4
	exitGated     = 5 // something the extension requires is missing
	exitDenied    = 6 // denied by a policy or by the operator's configuration
	exitExtension = 7 // the extension or its tool reports an error
	exitCanceled  = 8 // timeout or cancelled
	exitDoctor    = 9 // doctor found failures
)

// exitError is an error with its exit code. An empty text says that everything
// has been said already.
type exitError struct {
	code int
	text string
	hint string // the next command
}

func (e *exitError) Error() string { return e.text }

// usagef is an error in how the program was called, with the next command.
func usagef(hint, format string, args ...any) error {
	return &exitError{code: exitUsage, text: fmt.Sprintf(format, args...), hint: hint}
}

// errReported is for commands whose output has said it all.
func errReported(code int) error { return &exitError{code: code} }

// absent gives an error about something that is not there, other than a tool, the
// command that lists what is.
func absent(err error, hint string) error {
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ToolNotFound {
		return &exitError{code: exitNotFound, text: e.Message, hint: hint}
	}
	return err
}

func exitCode(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	if kind := protocol.KindOf(err); kind != "" {
		return kindCode(kind)
	}
	return exitFailed
}

func kindCode(kind protocol.Kind) int {
	switch kind {
	case protocol.ManifestInvalid, protocol.ConfigInvalid:
		return exitInvalid
	case protocol.ToolNotFound:
		return exitNotFound
	case protocol.RequirementMissing:
		return exitGated
	case protocol.Rejected, protocol.Untrusted, protocol.DescriptorChanged, protocol.GovernanceUnavailable:
		return exitDenied
	case protocol.CallTimeout, protocol.Canceled, protocol.HandshakeTimeout:
		return exitCanceled
	case protocol.InvalidArguments:
		return exitUsage
	}
	return exitExtension
}

// describe renders err for a person: what, why, and on a line of its own what to
// do next.
func describe(err error) string {
	var lines []string
	var exit *exitError
	var e *protocol.Error
	switch {
	case errors.As(err, &exit):
		if exit.text == "" {
			return ""
		}
		lines = append(lines, exit.text)
		if exit.hint != "" {
			lines = append(lines, "  next: "+exit.hint)
		}
	case errors.As(err, &e):
		lines = describeKind(e)
	case errors.Is(err, context.Canceled):
		lines = append(lines, "interrupted")
	default:
		lines = append(lines, err.Error())
	}
	return safeText(strings.Join(lines, "\n"))
}

func describeKind(e *protocol.Error) []string {
	lines := []string{e.Error()}
	for _, line := range lastWords(e.Evidence) {
		if !strings.Contains(e.Message, strings.TrimPrefix(line, "  stderr: ")) {
			lines = append(lines, line)
		}
	}
	if e.Outcome == "unknown" && !strings.Contains(e.Message, "may have") { // said already
		lines = append(lines, "  the extension had been asked and may have acted")
	}
	if e.RetryAfter > 0 {
		lines = append(lines, "  retry after "+span(e.RetryAfter))
	}
	if next := nextCommand(e); next != "" {
		lines = append(lines, "  next: "+next)
	}
	return lines
}

func nextCommand(e *protocol.Error) string {
	switch {
	case e.Kind == protocol.InvalidArguments && e.Tool != "":
		return "exthost tools schema " + e.Tool
	case e.Kind == protocol.Failed && e.Extension != "":
		return "mend it, then exthost restart " + e.Extension
	case e.Kind == protocol.CallTimeout && e.Extension != "":
		return "exthost restart " + e.Extension + " if it hangs; raise call_timeout under [runtime] if it is only slow"
	case kindCode(e.Kind) == exitExtension && e.Kind != protocol.ExtensionError && e.Extension != "":
		return "exthost info " + e.Extension
	case kindCode(e.Kind) == exitInvalid:
		return "exthost config show --origin"
	}
	return ""
}

// lastWords are the stderr lines that a failed process left.
func lastWords(e *protocol.Evidence) []string {
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
