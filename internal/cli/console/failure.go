package console

import (
	"errors"
	"slices"
	"strings"

	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/protocol"
)

// failure is the error of a command, for programs.
type failure struct {
	ExitCode int `json:"exit_code"`
	httpserver.Fault
	Next string `json:"next,omitempty"` // the next command
}

// PrintFailure prints err, which is not nil, as a document for -o json and yaml. It prints nothing in the other forms,
// after the command's own document, and for an error that is printed already.
func (c *Console) PrintFailure(err error) error {
	if c.printed || c.Output != "json" && c.Output != "yaml" {
		return nil
	}
	f := failure{ExitCode: ExitCode(err), Fault: httpserver.FaultOf(err)}
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Text == "" {
			return nil
		}
		f.Next = e.Hint
		if f.Kind == "" {
			f.Message = e.Text
		}
	} else if e, ok := errors.AsType[*protocol.Error](err); ok {
		f.Next = NextCommand(e)
	}
	return c.print(Document{Kind: "error", Value: f})
}

// AskedFor sets Output to the value of --output in args, so that an error is printed in the requested form even if
// parsing the command line failed before that flag.
func (c *Console) AskedFor(args []string) {
	for i, arg := range args {
		if arg == "--" {
			return
		}
		form, stated := strings.CutPrefix(arg, "--output=")
		if short, ok := strings.CutPrefix(arg, "-o"); ok {
			form, stated = strings.TrimPrefix(short, "="), true
		}
		if (arg == "-o" || arg == "--output") && i+1 < len(args) {
			form, stated = args[i+1], true
		}
		if stated && slices.Contains(outputs, form) {
			c.Output = form
		}
	}
}
