package secrets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/secret/secrets"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "github", "GITHUB_TOKEN", "_x", "a.b-c_", "7", strings.Repeat("x", 128)} {
		if err := secrets.CheckName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "-x", ".x", "x.", "x-", "a/b", `a\b`, "a b", "a\n", "ä", "{name}",
		"a\x00", strings.Repeat("x", 129)} {
		if secrets.CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// TestReplace replaces every reference by "V".
func TestReplace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"plain":                                "plain",
		"secret://github":                      "V github",
		"Bearer secret://a.b-c":                "Bearer V a.b-c",
		"postgres://u:secret://db_pw@host/x":   "postgres://u:V@host/x db_pw",
		"secret://a,secret://b":                "V,V a b",
		"topsecret://a secret+secret://b":      "topsecret://a secret+secret://b",
		"secret:/a secrets://b SECRET://c":     "secret:/a secrets://b SECRET://c",
		"xsecret://secret://inner":             "xsecret://V inner",
		"https://h/?key=secret://k&other=1":    "https://h/?key=V&other=1 k",
		"secret://":                            "error",
		"secret://-x":                          "error",
		"secret://x.":                          "error",
		"secret://a/b":                         "error",
		"secret:// a":                          "error",
		"secret://" + strings.Repeat("x", 129): "error",
	} {
		got, err := secrets.Replace(text, func(string) (string, error) { return "V", nil })
		names, wrong := secrets.Names(text)
		if (err == nil) != (wrong == nil) {
			t.Errorf("%q: %v and %v", text, err, wrong)
		}
		if err != nil {
			got, names = "error", nil
		}
		if got = strings.Join(append([]string{got}, names...), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if secrets.Refers(text) != (err != nil || len(names) > 0) {
			t.Errorf("%q refers: %v", text, secrets.Refers(text))
		}
	}
}

// TestValuesAreNotSearched: a value that looks like a reference is not replaced.
func TestValuesAreNotSearched(t *testing.T) {
	var asked []string
	got, err := secrets.Replace("secret://a!", func(name string) (string, error) {
		asked = append(asked, name)
		return "secret://b", nil
	})
	if err != nil || got != "secret://b!" || !slices.Equal(asked, []string{"a"}) {
		t.Errorf("%q, %v, asked for %q", got, err, asked)
	}
}

func TestValue(t *testing.T) {
	for data, want := range map[string]string{
		"x": "x", "x\n": "x", "x\r\n": "x", "x\n\n": "x\n", " x ": " x ", "a\nb\n": "a\nb", "\xff": "\xff",
		strings.Repeat("x", secrets.MaxValue): strings.Repeat("x", secrets.MaxValue),
	} {
		if got, err := secrets.Value([]byte(data)); err != nil || got != want {
			t.Errorf("%.20q: %.20q, %v", data, got, err)
		}
	}
	for _, data := range []string{"", "\n", "\r\n", "can\x00ary", strings.Repeat("canary", secrets.MaxValue)} {
		if _, err := secrets.Value([]byte(data)); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.20q: %v", data, err)
		}
	}
}
