package display

import (
	"encoding/json"
	"testing"
)

func TestVisibleJSONKeepsOtherBytes(t *testing.T) {
	for in, want := range map[string]string{
		`{"a\u001bb":["x\u202ey\\\"",12345678901234567890,1.10,"\u00e9\n"],"c":"\ud83d\ude00"}`: `{"ab":["xy\\\"",12345678901234567890,1.10,"\u00e9\n"],"c":"\ud83d\ude00"}`,
		"\"\U000e0041hid\u200bden <b>\"": `"hidden <b>"`,
		`{}`:                             `{}`,
		`"a\r\nb"`:                       `"a\r\nb"`,
		`"\\"`:                           `"\\"`,
		`"`:                              `"`,
	} {
		if got := string(VisibleJSON(json.RawMessage(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}
