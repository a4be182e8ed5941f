// Package console is the terminal side of the program, shared by all commands: flags, output forms, safe text, errors
// with exit codes.
package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/protocol"
)

// Console holds the input, the output and the common flags of one run of the program.
type Console struct {
	In       io.Reader
	Out, Err io.Writer // data, and messages for people

	Config     string   // --config; "": only the usual files
	Extensions []string // --extensions; nil: the configured paths
	Host       string   // --host; "": the host of this directory
	Trust      string   // --trust; "": the configured mode
	NoProject  bool     // --no-project-config
	LogLevel   string   // --log-level; "": the configured level
	Color      string   // --color
	Output     string   // --output, -o

	printed bool      // a command has printed its document
	logFile io.Closer // closed by Close
	closers []func()  // called by Close
}

// The accepted values of flags.
var (
	outputs    = []string{"table", "json", "yaml", "name"}
	colourOn   = []string{"auto", "always", "never"}
	trustModes = []string{"ask", "lock", "off"}
	LogLevels  = []string{"trace", "debug", "info", "warn", "error"}
)

// AddFlags adds the common flags to root and all commands below it.
func (c *Console) AddFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.Config, "config", "", "configuration `FILE`, laid over those of this directory")
	f.StringArrayVar(&c.Extensions, "extensions", nil,
		"search `DIR` for extensions instead of the configured paths (repeatable)")
	f.StringVar(&c.Host, "host", "", "ask the host with this `PID` or directory, not that of this directory")
	f.BoolVar(&c.NoProject, "no-project-config", false, "do not read the configuration of this directory")
	f.StringVar(&c.Trust, "trust", "",
		"what of this directory runs: `MODE` "+strings.Join(trustModes, ", ")+" (default ask)")
	f.StringVar(&c.LogLevel, "log-level", "", "`LEVEL` of the log on stderr: "+strings.Join(LogLevels, ", "))
	f.StringVar(&c.Color, "color", "auto", "colours: auto, always or never")
	f.StringVarP(&c.Output, "output", "o", "table", "`FORM` of the data: table, json, yaml or name")
	CompleteFlag(root, "output", outputs)
	CompleteFlag(root, "color", colourOn)
	CompleteFlag(root, "log-level", LogLevels)
	CompleteFlag(root, "trust", trustModes)
}

// AsksHost are the annotations of a command that asks a running host. Others refuse --host.
var AsksHost = map[string]string{"asks": "host"}

// CheckFlags returns an error for a common flag with a value that no command accepts, and for --host unless cmd has
// [AsksHost].
func (c *Console) CheckFlags(cmd *cobra.Command) error {
	if path := cmd.CommandPath(); c.Host != "" && cmd.Annotations["asks"] == "" {
		return Usagef(path+", in the directory of that host", "%s works on this directory and on files of its user, "+
			"and --host is for commands that ask a running host", path)
	}
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"--output", c.Output, outputs},
		{"--color", c.Color, colourOn},
		{"--log-level", c.LogLevel, LogLevels},
		{"--trust", c.Trust, trustModes},
	} {
		if f.value == "" {
			continue
		}
		if err := OneOf("", f.name, f.value, f.allowed); err != nil {
			return err
		}
	}
	return nil
}

// OnClose registers f to be called by Close, before the log file is closed.
func (c *Console) OnClose(f func()) { c.closers = append(c.closers, f) }

// Close calls the functions of OnClose and closes the log file.
func (c *Console) Close() {
	for _, f := range c.closers {
		f()
	}
	if c.logFile != nil {
		c.logFile.Close()
	}
}

// Tell prints lines on stderr. On a terminal they are wrapped.
func (c *Console) Tell(lines string) { _, _ = io.WriteString(hanging{c.Err, Width}, lines+"\n") }

// Say prints a diagnostic on stderr.
func (c *Console) Say(d protocol.Diagnostic) {
	colour := map[protocol.Level]Colour{
		protocol.LevelInfo:  Dim,
		protocol.LevelWarn:  Yellow,
		protocol.LevelError: Red,
	}[d.Level]
	c.Tell(c.Paint(colour, string(d.Level)) + ": " + Safe(Nearby(d).String()))
}

// Warn prints a warning on stderr. Arguments from third parties must be made safe by the caller.
func (c *Console) Warn(format string, args ...any) {
	c.Tell(c.Paint(Yellow, "warn") + ": " + fmt.Sprintf(format, args...))
}

// Info prints a hint on stderr. Arguments from third parties must be made safe by the caller.
func (c *Console) Info(format string, args ...any) {
	c.Tell(c.Paint(Dim, "info") + ": " + fmt.Sprintf(format, args...))
}

// Note prints on stderr how an import changes the entry at where. If dropped is true, the import leaves the entry out.
func (c *Console) Note(where string, dropped bool, message string) {
	level, prefix := c.Paint(Dim, "info"), ""
	if dropped {
		level, prefix = c.Paint(Yellow, "warn"), "left out: "
	}
	c.Tell(level + ": " + Safe(where) + ": " + prefix + Safe(message))
}

const (
	MaxInput    = 16 << 20 // of arguments and calls, in bytes: no extension accepts a longer line
	MaxSettings = 8 << 20  // of settings files of other programs, in bytes
)

// ReadFile reads a file of at most limit bytes. hint is the next command if the file does not exist.
func ReadFile(path string, limit int, hint string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a FIFO does not wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Code: ExitNotFound, Text: "there is no " + path, Hint: hint}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s is over %d MiB", path, limit>>20)
	}
	return data, err
}

// ReadObject reads the JSON object of --data: "-" reads stdin, "" is an empty object.
func (c *Console) ReadObject(data string) (json.RawMessage, error) {
	if data == "-" {
		read, err := io.ReadAll(io.LimitReader(c.In, MaxInput+1))
		if err != nil {
			return nil, err
		}
		if len(read) > MaxInput {
			return nil, Usagef("", "the arguments on stdin are over %d MiB", MaxInput>>20)
		}
		data = string(read)
	}
	if strings.TrimSpace(data) == "" {
		return json.RawMessage("{}"), nil
	}
	raw := json.RawMessage(strings.TrimSpace(data))
	var object map[string]json.RawMessage
	err := json.Unmarshal(raw, &object)
	if err == nil && object == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, Usagef(`exthost call TOOL -d '{"key": "value"}'`, "the arguments are not a JSON object: %v", err)
	}
	return raw, nil
}
