package toolsearch

import (
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// maxDefinitions bounds the definitions in the text of an answer, in bytes: one schema may have a quarter of a
// MiB.
const maxDefinitions = 48 << 10

// Text returns the result of a search for a model: the best tools with their schemas, one JSON object per line, and the
// others as signatures. Best tools without room for their definition are signatures too. caller returns the tool that
// calls a tool; it is named beside each, or in the last line if one calls all.
func Text(a tools.Found, caller func(*tools.Entry) string) string {
	var b strings.Builder
	writeSkills(&b, a.Skills)
	if len(a.Best) == 0 {
		b.WriteString("No tool matches these words.")
		if len(a.Extensions) > 0 {
			fmt.Fprintf(&b, " There are tools of %s. Search again, with words that their tools may use.",
				strings.Join(a.Extensions, ", "))
		}
		return b.String()
	}
	b.WriteString("The tools that match best:\n")
	room := maxDefinitions - b.Len()
	for _, e := range a.Best {
		if text := definition(e, caller(e)); len(text) <= room {
			b.Write(text)
			room -= len(text)
		} else {
			fmt.Fprintf(&b, "%s (its definition has %d bytes, more than are shown)", called(e, caller), len(text))
		}
		b.WriteByte('\n')
	}
	for _, g := range a.More {
		if len(g.Tools) == 0 && g.Left == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nMore of %s:\n", g.Extension)
		for _, e := range g.Tools {
			b.WriteString(called(e, caller) + "\n")
		}
		if g.Left > 0 {
			fmt.Fprintf(&b, "%d more are not shown; search with other words.\n", g.Left)
		}
	}
	if by := caller(a.Best[0]); by == tools.CallName {
		b.WriteString("\nCall one with " + by + `: {"tool": NAME, "arguments": {…}}.`)
	} else {
		b.WriteString("\nCall one with the tool that is named with it, such as " + by +
			`: {"tool": NAME, "arguments": {…}}.`)
	}
	return b.String()
}

// definition returns what a model needs to call a tool.
func definition(e *tools.Entry, caller string) []byte {
	out := rawjson.AppendText([]byte(`{"name":`), e.Name)
	if caller != tools.CallName {
		out = rawjson.AppendText(append(out, `,"callWith":`...), caller)
	}
	out = rawjson.AppendText(append(out, `,"description":`...), e.Description)
	return append(append(append(out, `,"inputSchema":`...), e.InputSchema...), '}')
}

// called returns the signature of a tool, behind the tool that calls it.
func called(e *tools.Entry, caller func(*tools.Entry) string) string {
	if by := caller(e); by != tools.CallName {
		return by + " " + Signature(e)
	}
	return Signature(e)
}
