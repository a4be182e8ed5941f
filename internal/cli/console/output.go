package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// schemaVersion is raised when a field changes its meaning or is removed.
const schemaVersion = 1

// Document is the data that a command prints, in all forms of --output.
type Document struct {
	Kind  string   // key of the value in JSON: {"schema_version":1,"<kind>":…}; "": the value alone, of a fixed form
	Value any      // for json and yaml
	Names []string // for name, one a line; nil: -o name is refused
	Rows  [][]string
	Drop  []string // titles of columns to leave out on a narrow terminal, in this order
	Wrap  bool     // wrap the last cell of a row instead of cutting it
	Text  string   // for table, if Rows is nil
	Code  int      // exit code if the data reports a failure; 0: it does not
}

// Print prints d in the form of --output. It returns [Reported] with d.Code unless that is 0.
func (c *Console) Print(d Document) error {
	c.printed = true
	if err := c.print(d); err != nil || d.Code == ExitOK {
		return err
	}
	return Reported(d.Code)
}

func (c *Console) print(d Document) error {
	switch c.Output {
	case "json":
		return printJSON(c.Out, d)
	case "yaml":
		if d.Kind == "" {
			return c.PrintYAML(d.Value)
		}
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
	return writeLines(c.Out, c.Layout(d.Wrap, d.Drop...).Grid(d.Rows))
}

func printJSON(w io.Writer, d Document) error {
	value, err := encode(d.Value)
	if err != nil {
		return err
	}
	text := bytes.TrimRight(value, "\n")
	if d.Kind != "" {
		text = fmt.Appendf(nil, `{"schema_version":%d,%q:%s}`, schemaVersion, d.Kind, value)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, SafeJSON(b.Bytes()))
	return err
}

// JSONOnly refuses -o yaml and name for a command that prints JSON only.
func (c *Console) JSONOnly(cmd *cobra.Command) error {
	if c.Output != "table" && c.Output != "json" {
		return Usagef("", "%s prints JSON, there is no -o %s of it", cmd.CommandPath(), c.Output)
	}
	return nil
}

// encode returns v as JSON in which < and & are not escaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// SafeJSON escapes characters that a terminal acts on. In JSON they occur only in strings, where the escapes mean the
// same.
func SafeJSON(data []byte) string {
	return escape(string(data), "\n", func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf("\\u%04x\\u%04x", high, low)
	})
}

// OrEmpty returns list, or an empty list for nil, so that JSON has [] instead of null.
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

// PrintYAML prints v as YAML. It encodes v as JSON first, so that both forms have the same keys in the same order and
// numbers keep their digits. Characters that a terminal acts on are escaped, which YAML allows between double quotes.
func (c *Console) PrintYAML(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return err
	}
	_, err = io.WriteString(c.Out, escape(b.String(), "\n", longEscape))
	return err
}

func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if token == '{' {
			node.Kind = yaml.MappingNode // Content holds keys and values in turn
		}
		for dec.More() {
			item, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, item)
		}
		_, err := dec.Token() // the closing bracket
		return node, err
	case string:
		node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: token}
		if strings.ContainsFunc(token, Invisible) {
			node.Style = yaml.DoubleQuotedStyle
		}
		return node, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
	}
	node := &yaml.Node{}
	return node, node.Encode(token) // true, false or null
}
