// Package console is the terminal side of the program, which all commands share:
// flags, output forms, text that is safe to show, errors with exit codes.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/protocol"
)

// Console is the input and output of one run of the program, and the flags that all
// commands take.
type Console struct {
	In       io.Reader
	Out, Err io.Writer // data, and messages for people

	Config     string   // --config; "": only the usual files
	Extensions []string // --extensions; nil: the configured paths
	LogLevel   string   // --log-level; "": the configured level
	Color      string   // --color
	Output     string   // --output, -o

	logFile *os.File // closed by Close
}

// The values of the flags that take one of a few.
var (
	outputs   = []string{"table", "json", "yaml", "name"}
	colourOn  = []string{"auto", "always", "never"}
	LogLevels = []string{"trace", "debug", "info", "warn", "error"}
)

// AddFlags gives root and all commands below it the flags of c.
func (c *Console) AddFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.Config, "config", "", "configuration `FILE`, laid over those of this directory")
	f.StringArrayVar(&c.Extensions, "extensions", nil, "search `DIR` for extensions instead of the configured paths (repeatable)")
	f.StringVar(&c.LogLevel, "log-level", "", "`LEVEL` of the log on stderr: "+strings.Join(LogLevels, ", "))
	f.StringVar(&c.Color, "color", "auto", "colours: auto, always or never")
	f.StringVarP(&c.Output, "output", "o", "table", "`FORM` of the data: table, json, yaml or name")
	CompleteFlag(root, "output", outputs)
	CompleteFlag(root, "color", colourOn)
	CompleteFlag(root, "log-level", LogLevels)
}

// CheckFlags refuses values of the flags of c that no command accepts.
func (c *Console) CheckFlags() error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{{"--output", c.Output, outputs}, {"--color", c.Color, colourOn}, {"--log-level", c.LogLevel, LogLevels}} {
		if f.value == "" {
			continue
		}
		if err := OneOf("", f.name, f.value, f.allowed); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the log file.
func (c *Console) Close() {
	if c.logFile != nil {
		c.logFile.Close()
	}
}

// Say prints a diagnostic on stderr.
func (c *Console) Say(d protocol.Diagnostic) {
	colour := map[protocol.Level]Colour{protocol.LevelInfo: Dim, protocol.LevelWarn: Yellow, protocol.LevelError: Red}[d.Level]
	fmt.Fprintf(c.Err, "%s: %s\n", c.Paint(colour, string(d.Level)), Safe(Nearby(d).String()))
}

// Warn prints a warning on stderr. Arguments that third parties wrote have to be safe
// already.
func (c *Console) Warn(format string, args ...any) {
	fmt.Fprintf(c.Err, "%s: %s\n", c.Paint(Yellow, "warn"), fmt.Sprintf(format, args...))
}

// Note prints on stderr how an import changes one entry of a file, or with dropped that
// the entry is left out. where names the entry.
func (c *Console) Note(where string, dropped bool, message string) {
	level, prefix := c.Paint(Dim, "info"), ""
	if dropped {
		level, prefix = c.Paint(Yellow, "warn"), "left out: "
	}
	fmt.Fprintf(c.Err, "%s: %s: %s%s\n", level, Safe(where), prefix, Safe(message))
}
