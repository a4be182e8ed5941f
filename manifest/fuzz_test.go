package manifest

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

func FuzzParse(f *testing.F) {
	for _, text := range validManifests {
		f.Add([]byte(text))
	}
	f.Add([]byte("a = \"\"\"x\"\"\"\"\"\n[[b.\"c\\u0041\"]]\nd = [1, {e = 1979-05-27 07:32:00}, '''''']\n"))
	f.Add([]byte("a = { b.c = [ # }\n { 'd' = +inf }, ], }\r\n[ a . \"x\" ]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, diags := Parse("p", data)
		if failed(diags) == (m != nil) {
			t.Errorf("manifest %v beside %v", m, diags)
		}
		checkPositions(t, data, diags)
		s, ok := newSource("p", CodeInvalid, data)
		if !ok {
			return
		}
		// Whatever the parser accepts, the scanner has measured to the end.
		sc := scanner{src: s.text}
		complete := sc.scan(s.root)
		if sc.limit != "" {
			return
		}
		if values, err := parseTOML(s.text); err == nil {
			if !complete {
				t.Fatalf("the scanner stopped at %d of valid TOML", sc.pos)
			}
			checkNodes(t, s.root, values, "")
		}
	})
}

// checkNodes fails unless every key of a value has its place.
func checkNodes(t *testing.T, n *node, v any, where string) {
	if n == nil {
		t.Errorf("%s has no place", where)
		return
	}
	if table, ok := v.(map[string]any); ok {
		for key, elem := range table {
			if !strings.ContainsAny(key, "\x7f\n\\\u0080") && key != "" {
				checkNodes(t, n.kid(key), elem, join(where, key))
			}
		}
	}
	if list, ok := asList(v); ok {
		for i, elem := range list {
			checkNodes(t, n.item(i), elem, where+"[]")
		}
	}
}

// checkPositions fails for a position that the file does not have.
func checkPositions(t *testing.T, data []byte, diags []protocol.Diagnostic) {
	lines := strings.Split(strings.TrimPrefix(string(data), utf8BOM), "\n")
	for _, d := range diags {
		if d.Line == 0 && d.Code == CodeTooLarge {
			continue
		}
		if d.Line < 1 || d.Line > len(lines) || d.Column < 1 || d.Column > len(lines[d.Line-1])+1 {
			t.Errorf("no such position: %v", d)
		}
	}
}

func FuzzParseSidecar(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "args": ["${input:y}"]}, /* c */ }, "other": 1 }`))
	f.Add([]byte(`{"servers": {"A": {"type": "sse", "url": "https://x/sse", "headers": {"a": "b"}}, "a": []}} // x`))
	f.Add([]byte("{\"servers\": [null, true, 1e9, \"\\u0000\"]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, diags := ParseSidecar("s", data)
		checkPositions(t, data, diags)
		if servers == nil && !failed(diags) {
			t.Error("neither servers nor an error")
		}
		for name, s := range servers {
			if ServerID("o", name) == "" || len(s.Validate()) > 0 {
				t.Errorf("%q: %+v is not a server that can run", name, s)
			}
		}
	})
}
