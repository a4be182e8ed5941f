package schema

import "testing"

// A schema that is none says in one line where, and what stands there.
func TestSchemaThatIsNone(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"object","properties":{"sides":{"type":"integr"}}}`: `/properties/sides/type: expected array, or ` +
			`one of the allowed values ["array","boolean","integer","null","number","object","string"], ` +
			`got string "integr"`,
		`{"type":"object","required":"sides"}`: `/required: expected array, got string "sides"`,
		`{"type":"object","properties":{"a/b":{"minimum":"1"}}}`: `/properties/a~1b/minimum: expected number, ` +
			`got string "1"`,
		`{"type":"object","properties":{"a":3}}`: `/properties/a: expected boolean or object, got number 3`,
		`{"type":"object","properties":{"p":{"pattern":"(?=a)"}}}`: `/properties/p/pattern: expected a string of ` +
			`format regex, got string "(?=a)"`,
	} {
		doc, err := Read([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := Compile(doc).Err(); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", raw, err, want)
		}
	}
}
