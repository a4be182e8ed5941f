package strictjson

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// FuzzColons holds the number of members against what a walk over all finds.
func FuzzColons(f *testing.F) {
	f.Add([]byte(`{"a":[{"b:":1,"b:":"\":"}],"c":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if rawjson.Check(text) != nil {
			t.Skip("no JSON")
		}
		if got, want := countColons(text), walk(t, text); got != want {
			t.Errorf("%d members in %s, counted %d", want, text, got)
		}
	})
}

func walk(t *testing.T, text []byte) (n int) {
	for _, value := range rawjson.Members(text) {
		n += 1 + walk(t, value)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err == nil {
		for _, element := range list {
			n += walk(t, element)
		}
	}
	return n
}
