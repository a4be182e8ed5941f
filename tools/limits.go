package tools

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/exthost/exthost/protocol"
)

// The limits of a descriptor. What exceeds one is dropped with a diagnostic;
// the rest of the extension's tools live.
const (
	MaxTools           = 1000       // tools of one extension
	MaxToolName        = 128        // characters of a tool's own name
	MaxDescription     = 32 << 10   // bytes of a description
	MaxDescriptor      = 1 << 20    // bytes of a whole descriptor
	MaxSchema          = 256 << 10  // bytes of an input or output schema
	maxSchemaNodes     = 10_000     // JSON values in a schema
	maxSchemaDepth     = 64         // nesting of a schema
	maxSchemaRefs      = 500        // references in a schema that is to be checked
	maxSchemaPatterns  = 10_000     // instructions of all its regular expressions, unrolled
	maxArgumentNodes   = 200_000    // JSON values in arguments that are checked
	maxArgumentDepth   = 128        // nesting of arguments that are checked
	maxVisits          = 20_000_000 // schema values × argument values
	maxUnmeteredVisits = 1_000_000  // as many of them are not worth counting
	baseFuel           = 50_000     // counted visits of a check …
	fuelPerNode        = 20         // … and for each argument value as many more
	maxMatchWork       = 50_000_000 // instructions of a regular expression × bytes of its string
)

// Check reports what is wrong with a descriptor. One finding of LevelError means
// that the tool cannot be offered; the others are remarks about a tool that can.
// [NewCatalog] applies the same rules.
func Check(t protocol.Tool) []protocol.Diagnostic {
	_, ds := inspect(t)
	return ds
}

// document is a decoded input schema.
type document struct {
	root any
	refs int // references in it
	size int // values in it
}

// inspect is Check that keeps the decoded input schema.
func inspect(t protocol.Tool) (document, []protocol.Diagnostic) {
	ds := checkName(t.Name)
	if n := len(t.Description); n > MaxDescription {
		ds = append(ds, finding("tool_description_too_long",
			"tool %q: its description has %d bytes, at most %d are allowed", cut(t.Name, MaxToolName), n, MaxDescription))
	}
	var doc document
	for _, s := range []struct {
		what string
		raw  []byte
	}{{"input", t.InputSchema}, {"output", t.OutputSchema}} {
		if len(s.raw) == 0 {
			continue
		}
		d, err := readSchema(s.raw)
		if err != nil {
			ds = append(ds, finding("tool_schema_invalid", "tool %q: %s schema: %v", cut(t.Name, MaxToolName), s.what, err))
		}
		if s.what == "input" {
			doc = d
		}
	}
	return doc, ds
}

func readSchema(raw []byte) (document, error) {
	if len(raw) > MaxSchema {
		return document{}, fmt.Errorf("%d bytes, at most %d are allowed", len(raw), MaxSchema)
	}
	root, s, err := decode(raw, bounds{maxSchemaNodes, maxSchemaDepth})
	if err != nil {
		return document{}, err
	}
	switch root.(type) {
	case map[string]any, bool:
		return document{root, s.refs, s.nodes}, nil
	}
	return document{}, fmt.Errorf("expected an object")
}

func checkName(name string) []protocol.Diagnostic {
	switch {
	case name == "":
		return []protocol.Diagnostic{finding("tool_name_invalid", "a tool has no name")}
	case !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxToolName:
		return []protocol.Diagnostic{finding("tool_name_invalid",
			"tool %q: a name has at most %d characters of valid UTF-8", cut(name, 64), MaxToolName)}
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || invisible(r) }):
		return []protocol.Diagnostic{finding("tool_name_invalid", "tool %q: a name holds no control or invisible characters", name)}
	case strings.ContainsFunc(name, func(r rune) bool { return r != '.' && !nameRune(r) }):
		d := finding("tool_name_charset", "tool %q: characters outside A-Z a-z 0-9 _ - . are registered as _", name)
		d.Level, d.Hint = protocol.LevelWarn, "rename the tool"
		return []protocol.Diagnostic{d}
	}
	return nil
}

func finding(code, format string, args ...any) protocol.Diagnostic {
	return protocol.Diagnostic{Level: protocol.LevelError, Code: code, Message: fmt.Sprintf(format, args...)}
}
