package protocol

import (
	"fmt"
	"strings"
)

// Level ranks a diagnostic.
type Level string

// The levels of a diagnostic.
const (
	LevelInfo  Level = "info"  // nothing is missing
	LevelWarn  Level = "warn"  // something was skipped or changed
	LevelError Level = "error" // something cannot be used
)

// Diagnostic is one finding about the files of an operator or author. Everything that the host leaves out gets
// one.
type Diagnostic struct {
	Level     Level  `json:"level"`
	Code      string `json:"code"` // stable, snake_case
	Extension string `json:"extension,omitempty"`
	Path      string `json:"path,omitempty"`
	Line      int    `json:"line,omitempty"`   // 1-based; 0 when unknown
	Column    int    `json:"column,omitempty"` // 1-based, in bytes; 0 when unknown
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"` // the next step
}

// String returns path:line:column: message; hint.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.Path != "" {
		b.WriteString(d.Path)
		if d.Line > 0 {
			fmt.Fprintf(&b, ":%d", d.Line)
			if d.Column > 0 {
				fmt.Fprintf(&b, ":%d", d.Column)
			}
		}
		b.WriteString(": ")
	} else if d.Extension != "" {
		b.WriteString(d.Extension + ": ")
	}
	b.WriteString(d.Message)
	if d.Hint != "" {
		b.WriteString("; " + d.Hint)
	}
	return b.String()
}
