package clientsettings

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestBounds counts nesting and values outside of strings and comments, whose ends it finds where the parsers do.
func TestBounds(t *testing.T) {
	deep := strings.Repeat("[", maxNesting+1)
	many := strings.Repeat(",", maxValues+1)
	for name, tt := range map[string]struct {
		text   string
		isTOML bool
		want   string
	}{
		"JSON":                         {`{"a": ` + deep, false, "nested deeper"},
		"JSON with many values":        {`{"a": [` + many, false, "more than"},
		"JSON string":                  {`{"a": "\"` + deep + `"}`, false, ""},
		"JSON comments":                {"// " + deep + "\n/* " + deep + " */ {}", false, ""},
		"TOML":                         {"a = " + deep, true, "nested deeper"},
		"TOML with many values":        {"a = [" + many, true, "more than"},
		"TOML comment":                 {"# " + deep, true, ""},
		"strings":                      {`a = ["\"` + deep + `", '\', '` + deep + `']`, true, ""},
		"after strings":                {`a = ["\\", '\', "", '', ` + deep, true, "nested deeper"},
		"strings of lines":             {"a = [\"\"\"\n\\\"\"\"" + deep + `""", '''` + "\n" + deep + `''']`, true, ""},
		"after strings of lines":       {`a = ["""\\""", '''\''', """""", '''''', ` + deep, true, "nested deeper"},
		"after a quote at an end":      {`a = ["""x"""", ` + deep, true, "nested deeper"},
		"after quotes at an end":       {`a = ["""x""""", '''x''''', """"""", ` + deep, true, "nested deeper"},
		"string after quote at an end": {`a = ["""x"""", "` + deep + `", '''x'''', '` + deep + `']`, true, ""},
	} {
		err := Bounds([]byte(tt.text), tt.isTOML)
		if err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		var root map[string]any
		if tt.isTOML && tt.want == "" {
			if err := toml.Unmarshal([]byte(tt.text), &root); err != nil {
				t.Errorf("%s: the parser refuses the text: %v", name, err)
			}
		}
	}
}
