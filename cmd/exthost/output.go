package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// schemaVersion is carried by every JSON and YAML document; it rises when a field
// changes its meaning or goes away.
const schemaVersion = 1

// document is what a data command shows, in every form it can take.
type document struct {
	Kind  string   // names the value in JSON: {"schema_version":1,"<kind>":…}
	Value any      // for json and yaml
	Names []string // for name, one a line; nil: it has no such form
	Rows  [][]string
	Wrap  bool   // the last cell of a row is wrapped to the terminal and not cut
	Text  string // in place of Rows
}

func (a *app) print(d document) error {
	switch a.flags.output {
	case "json":
		return a.printJSON(d)
	case "yaml":
		return a.printYAML(map[string]any{"schema_version": schemaVersion, d.Kind: d.Value})
	case "name":
		if d.Names == nil {
			return usagef("", "there is no -o name of %s; there is table, json and yaml", d.Kind)
		}
		return writeLines(a.out, d.Names)
	}
	if d.Rows == nil {
		_, err := fmt.Fprintln(a.out, strings.TrimSuffix(d.Text, "\n"))
		return err
	}
	return writeLines(a.out, grid(d.Rows, width(a.out), d.Wrap))
}

func (a *app) printJSON(d document) error {
	value, err := encode(d.Value)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, fmt.Appendf(nil, `{"schema_version":%d,%q:%s}`, schemaVersion, d.Kind, value), "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.out, safeJSON(b.Bytes()))
	return err
}

// encode is JSON as people write it, with < and & in it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// safeJSON escapes what a terminal would act on. In JSON such characters occur in
// strings only, where the escape means the same.
func safeJSON(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r == '\n' || !invisible(r):
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

// grid aligns rows in columns, made safe for a terminal. What is too long for the
// width is cut at the end of its line or, with fold, goes on below.
func grid(rows [][]string, width int, fold bool) []string {
	var widths []int
	for i, row := range rows {
		rows[i] = make([]string, len(row))
		for j, cell := range row {
			rows[i][j] = safe(cell)
			if j == len(widths) {
				widths = append(widths, 0)
			}
			if j < len(row)-1 { // the last cell has no right edge
				widths[j] = max(widths[j], len([]rune(rows[i][j])))
			}
		}
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, line(row, widths, width, fold)...)
	}
	return lines
}

// leastRoom is what the last cell gets however narrow the terminal.
const leastRoom = 10

func line(row []string, widths []int, width int, fold bool) []string {
	if len(row) == 0 {
		return []string{""}
	}
	var b strings.Builder
	indent := 0
	for j, cell := range row[:len(row)-1] {
		fmt.Fprintf(&b, "%-*s  ", widths[j], cell)
		indent += widths[j] + 2
	}
	last, room := row[len(row)-1], 0
	if width > 0 {
		room = max(width-indent, leastRoom)
	}
	if !fold {
		return []string{strings.TrimRight(b.String()+cut(last, room), " ")}
	}
	lines := wrap(last, room)
	for i := range lines {
		if i == 0 {
			lines[i] = strings.TrimRight(b.String()+lines[i], " ")
		} else {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	return lines
}

func writeLines(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
