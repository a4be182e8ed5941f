package tools

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
)

// Limits of a descriptor. A tool over a limit is dropped with a diagnostic.
const (
	MaxTools       = 10_000    // tools of one extension; the rest is dropped with one diagnostic
	MaxToolName    = 128       // runes of a tool's own name
	MaxDescription = 32 << 10  // bytes of a description
	MaxDescriptor  = 1 << 20   // bytes of a whole descriptor
	MaxSchema      = 256 << 10 // bytes of an input or output schema
)

// Check returns the errors (LevelError) and warnings of a descriptor. [NewCatalog] applies the same rules and
// drops tools with errors.
func Check(t protocol.Tool) []protocol.Diagnostic {
	_, ds := inspect(t)
	return ds
}

// inspect is Check that also returns the decoded input schema.
func inspect(t protocol.Tool) (schema.Document, []protocol.Diagnostic) {
	ds := checkName(t.Name)
	if n := len(t.Description); n > MaxDescription {
		ds = append(ds, diagnostic("tool_description_too_long",
			"tool %q: its description has %d bytes, at most %d are allowed", display.Cut(t.Name, MaxToolName), n,
			MaxDescription))
	}
	if found := display.FindHidden(t.Raw); len(found) > 0 && !slices.ContainsFunc(ds, fails) {
		texts := make([]string, len(found))
		for i, h := range found {
			texts[i] = h.String()
		}
		d := diagnostic("hidden_text", "tool %q: its descriptor has characters that a reader does not see: %s",
			display.Cut(t.Name, MaxToolName), strings.Join(texts, ", "))
		d.Level, d.Hint = protocol.LevelWarn, "a model reads them; ask the author why they are there"
		ds = append(ds, d)
	}
	var doc schema.Document
	for _, s := range []struct {
		what string
		raw  []byte
	}{{"input", t.InputSchema}, {"output", t.OutputSchema}} {
		if len(s.raw) == 0 {
			continue
		}
		d, err := readSchema(s.raw)
		if err != nil {
			ds = append(ds, diagnostic("tool_schema_invalid", "tool %q: %s schema: %v",
				display.Cut(t.Name, MaxToolName), s.what, err))
		}
		if s.what == "input" {
			doc = d
		}
	}
	return doc, ds
}

func fails(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }

func readSchema(raw []byte) (schema.Document, error) {
	if len(raw) > MaxSchema {
		return schema.Document{}, fmt.Errorf("%d bytes, at most %d are allowed", len(raw), MaxSchema)
	}
	return schema.Read(raw)
}

func checkName(name string) []protocol.Diagnostic {
	switch {
	case name == "":
		return []protocol.Diagnostic{diagnostic("tool_name_invalid", "a tool has no name")}
	case !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxToolName:
		return []protocol.Diagnostic{diagnostic("tool_name_invalid",
			"tool %q: a name has at most %d characters of valid UTF-8", display.Cut(name, 64), MaxToolName)}
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || display.Invisible(r) }):
		return []protocol.Diagnostic{
			diagnostic("tool_name_invalid", "tool %q: a name holds no control or invisible characters", name),
		}
	case strings.ContainsFunc(name, func(r rune) bool { return r != '.' && !nameRune(r) }):
		d := diagnostic("tool_name_charset", "tool %q: characters outside A-Z a-z 0-9 _ - . are registered as _", name)
		d.Level, d.Hint = protocol.LevelWarn, "rename the tool"
		return []protocol.Diagnostic{d}
	}
	return nil
}

func diagnostic(code, format string, args ...any) protocol.Diagnostic {
	return protocol.Diagnostic{Level: protocol.LevelError, Code: code, Message: fmt.Sprintf(format, args...)}
}
