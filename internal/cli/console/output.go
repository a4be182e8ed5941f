package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// schemaVersion is in every JSON and YAML document; it rises when a field changes its
// meaning or is removed.
const schemaVersion = 1

// Document is the data that a command prints, in every form it can take.
type Document struct {
	Kind  string   // names the value in JSON: {"schema_version":1,"<kind>":…}
	Value any      // for json and yaml
	Names []string // for name, one a line; nil: there is no such form
	Rows  [][]string
	Wrap  bool   // wrap the last cell of a row to the terminal instead of cutting it
	Text  string // for table where Rows is nil
}

// Print prints d in the form of --output.
func (c *Console) Print(d Document) error {
	switch c.Output {
	case "json":
		return c.printJSON(d)
	case "yaml":
		return c.PrintYAML(map[string]any{"schema_version": schemaVersion, d.Kind: d.Value})
	case "name":
		if d.Names == nil {
			return Usagef("", "there is no -o name of %s; there is table, json and yaml", d.Kind)
		}
		return writeLines(c.Out, d.Names)
	}
	if d.Rows == nil {
		_, err := fmt.Fprintln(c.Out, strings.TrimSuffix(d.Text, "\n"))
		return err
	}
	return writeLines(c.Out, Grid(d.Rows, Width(c.Out), d.Wrap))
}

func (c *Console) printJSON(d Document) error {
	value, err := encode(d.Value)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, fmt.Appendf(nil, `{"schema_version":%d,%q:%s}`, schemaVersion, d.Kind, value), "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, SafeJSON(b.Bytes()))
	return err
}

// JSONOnly refuses -o yaml and name for a command whose data has one form.
func (c *Console) JSONOnly(cmd *cobra.Command) error {
	if c.Output != "table" && c.Output != "json" {
		return Usagef("", "%s prints JSON, there is no -o %s of it", cmd.CommandPath(), c.Output)
	}
	return nil
}

// encode is JSON in which < and & stay as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// SafeJSON escapes characters that a terminal acts on. In JSON they occur in strings
// only, where the escape has the same meaning.
func SafeJSON(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r == '\n' || !Invisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, "\\u%04x\\u%04x", 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// OrEmpty keeps a list from being null in JSON.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func writeLines(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
