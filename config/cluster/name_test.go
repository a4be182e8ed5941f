package cluster

import (
	"strings"
	"testing"
)

func TestInvalidNamesAreRefused(t *testing.T) {
	for _, name := range []string{"a", "n1", "web-1", strings.Repeat("x", 32)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "nobody", "-a", "a-", "A", "a.b", "a*", ">", strings.Repeat("x", 33), "a b"} {
		if CheckName(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func TestHostNamesBecomeNodeNames(t *testing.T) {
	for host, want := range map[string]string{
		"n1":                    "n1",
		"Web_1.example.com":     "web-1",
		"":                      "",
		"_._":                   "",
		"nobody":                "",
		strings.Repeat("x", 40): strings.Repeat("x", 32),
		"Büro":                  "b-ro",
	} {
		if got := nodeOf(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
