package display

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestInvisibleCharactersAreFound(t *testing.T) {
	for in, want := range map[string]string{
		`{"title":"plain","n":[1,"a\nb\tc\r\n","é","\ud83d\ude00"]}`:  "[]",
		`{"d":"❤\ufe0f 1\ufe0f\u20e3 👨\u200d👩\u200d👧 می\u200cخواهم"}`: "[]",
		`{"title":"a\u001b[31m"}`:     "[U+001B at /title]",
		"{\"d\":\"a\u202eb\u200bc\"}": "[U+202E at /d]",
		`{"d":"a\u200db"}`:            "[U+200D at /d]",
		`{"inputSchema":{"properties":{"p\u200b":{"enum":["x","\ufeffy"]}}}}`: "[U+200B at /inputSchema/properties/p " +
			"U+FEFF at /inputSchema/properties/p/enum/1]",
		"{\"a\":\"\u200b\",\"b\":\"x\U000e0041\",\"c/~\":\"\\u200b\"}": "[U+E0041 at /b U+200B at /a U+200B at /c~1~0]",
		`{"d":"\udb40\udc41"}`:                        "[U+E0041 at /d]",
		`{"d":"é`:                                     "[]",
		`{"d":"👁\ufe0f\u200d🗨\ufe0f"}`:                "[]",
		`{"d":"é\u200d\u200c"}`:                       "[U+200C at /d]",
		`{"d":"é\ufe0f\ufe0e"}`:                       "[U+FE0E at /d]",
		`{"d":"é\u200d\ufe0f"}`:                       "[U+FE0F at /d]",
		"{\"d\":\"a\x7fb\",\"e\":\"\\b\"}":            "[U+007F at /d U+0008 at /e]",
		`{"d":"\udb40\udc41","d":"x"}`:                "[U+E0041 at /d]",
		`{"a":[{"d":["x",{"e":"\u200b"},"\u200b"]}]}`: "[U+200B at /a/0/d/1/e U+200B at /a/0/d/2]",
	} {
		if got := fmt.Sprint(FindHidden(json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	many := FindHidden(json.RawMessage(`["` + strings.Repeat("\u200b\",\"", 20) + "\U000e0041\"]"))
	if len(many) != maxHidden || !many[0].Tag() || many[1].Tag() {
		t.Errorf("%v", many)
	}
}
