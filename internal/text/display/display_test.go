package display

import "testing"

// A shortened text has a secret as a whole or not at all.
func TestCutKeepsWordsWhole(t *testing.T) {
	for s, want := range map[string]string{
		"say a token":               "say a token",
		"say no token":              "say no …",
		`{"a":"secret","b":"more"}`: `{"a":"…`,
		"one-long-secret":           "…",
		"eight by token":            "eight …",
		"":                          "",
		"ü ü ü ü ü ü":               "ü ü …",
	} {
		if got := CutWords(s, 11); got != want || len(got) > 11 {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
	}
}
