package manifest

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/strict"
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
		if strict.Failed(diags) == (m != nil) {
			t.Errorf("manifest %v beside %v", m, diags)
		}
		checkPositions(t, data, diags)
	})
}

// checkPositions fails for a position outside of the file.
func checkPositions(t *testing.T, data []byte, diags []protocol.Diagnostic) {
	lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
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
		if servers == nil && !strict.Failed(diags) {
			t.Error("neither servers nor an error")
		}
		for name, s := range servers {
			if ServerID("o", name) == "" || len(s.Validate()) > 0 {
				t.Errorf("%q: %+v is not a server that can run", name, s)
			}
		}
	})
}
