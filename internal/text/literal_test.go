package text

import (
	"encoding/json"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// All three formats read back the text.
func TestEveryFormatReadsStrings(t *testing.T) {
	for _, text := range []string{"", "plain", `"quoted" \ 'single'`, "a\nb\tc\r", "\x00\x01\x1f\x7f\u0080\u009f",
		"\ufeff\ufffe\uffff", "${X} # = [a]", "\u2028é😀", "yes", "1"} {
		value := Literal(text)
		var ofTOML, ofYAML, ofJSON struct{ V string }
		if _, err := toml.Decode("V = "+value, &ofTOML); err != nil || ofTOML.V != text {
			t.Errorf("TOML reads %q of %s, %v", ofTOML.V, value, err)
		}
		if err := yaml.Unmarshal([]byte("v: "+value), &ofYAML); err != nil || ofYAML.V != text {
			t.Errorf("YAML reads %q of %s, %v", ofYAML.V, value, err)
		}
		if err := json.Unmarshal([]byte(`{"V": `+value+`}`), &ofJSON); err != nil || ofJSON.V != text {
			t.Errorf("JSON reads %q of %s, %v", ofJSON.V, value, err)
		}
	}
	if got := Literal("a\xffb"); got != "\"a\ufffdb\"" && got != `"a\ufffdb"` {
		t.Errorf("not UTF-8: %s", got)
	}
}

func TestEveryFormatReadsListsAndMaps(t *testing.T) {
	var v struct {
		L []string
		M map[string]string
	}
	l, m := []string{"a", `b"`}, map[string]string{"k.1": "v", "b": "w"}
	_, err := toml.Decode("L = "+LiteralList(l)+"\nM = "+LiteralMap(m, " = "), &v)
	if err != nil || cmp.Diff(l, v.L) != "" || cmp.Diff(m, v.M) != "" {
		t.Errorf("%+v, %v", v, err)
	}
}
