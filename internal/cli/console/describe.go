package console

import (
	"context"
	"errors"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// Describe renders err for a person: the error, its cause, and on a line of its own the
// next command. "" when err says nothing new.
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
	case errors.Is(err, context.Canceled):
		lines = append(lines, "interrupted")
	default:
		lines = append(lines, err.Error())
	}
	return SafeText(strings.Join(lines, "\n"))
}

// DescribeKind is [Describe] for an error of the host, not yet safe for a terminal.
func DescribeKind(e *protocol.Error) []string {
	lines := []string{e.Error()}
	for _, line := range LastWords(e.Evidence) {
		if !strings.Contains(e.Message, strings.TrimPrefix(line, "  stderr: ")) {
			lines = append(lines, line)
		}
	}
	if e.Outcome == "unknown" && !strings.Contains(e.Message, "may have") { // the message does not say so
		lines = append(lines, "  the extension had been asked and may have acted")
	}
	if e.RetryAfter > 0 {
		lines = append(lines, "  retry after "+Span(e.RetryAfter))
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
	case KindCode(e.Kind) == ExitExtension && e.Kind != protocol.ExtensionError && e.Extension != "":
		return "exthost info " + e.Extension
	case KindCode(e.Kind) == ExitInvalid:
		return "exthost config show --origin"
	}
	return ""
}

// LastWords are the lines that a failed process left on stderr, and on stdout where
// that broke the protocol.
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
