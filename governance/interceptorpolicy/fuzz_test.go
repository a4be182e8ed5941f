package interceptorpolicy_test

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/governance"
)

// FuzzAnswers: whatever a server answers, only a plain word lets an exchange pass, and a
// change is an object.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"valid":true}`, `{"valid":false,"severity":"warn","messages":[{"path":"a","message":"b"}]}`,
		`{"valid":false,"valid":true}`, `{"Valid":true}`,
		`{"interceptor":"i","type":"validation","phase":"request","valid":true,"info":{"code":"c"}}`,
		`{"modified":true,"payload":{"a":1.50}}`, `{"modified":false}`, `[]`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return // an error of the server
		}
		var said map[string]any
		readable := json.Unmarshal([]byte(text), &said) == nil
		for of, word := range map[string]string{validator("i", ""): "valid", mutator("i", ""): "modified"} {
			d, err := opened(t, lists(of).answers(map[string]string{"i": text}), governance.Spec{}).Decide(t.Context(),
				governance.Request, &toolCall)
			if err != nil {
				continue
			}
			plain := said[word] == (word == "valid")
			switch warned := word == "valid" && said[word] == false &&
				(said["severity"] == "warn" || said["severity"] == "info"); {
			case !readable:
				t.Errorf("%s of %q: %+v", word, text, d)
			case d.Action == governance.Allow && !plain && !warned:
				t.Errorf("%s of %q passes", word, text)
			case d.Action == governance.Modify &&
				(said["modified"] != true || json.Unmarshal(d.JSON, &map[string]any{}) != nil):
				t.Errorf("%s of %q changes it to %s", word, text, d.JSON)
			}
		}
	})
}
