package console

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü 漢字 🙂":                     "plain äöü 漢字 🙂",
		"\x1b[31m":                           `\u001b[31m`,
		"a\nb\tc\x7f":                        `a\u000ab\u0009c\u007f`,
		"\u009b":                             `\u009b`,
		"\u202e\u200b\ufeff\U000e0041\u2028": `\u202e\u200b\ufeff\U000e0041\u2028`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %s, want %s", in, got, want)
		}
	}
	if got := SafeText("a\n\tb\x1b"); got != "a\n\tb\\u001b" {
		t.Errorf("safeText keeps lines: %q", got)
	}
}

// Long lines are broken between words, and colours take no room.
func TestLinesAreBrokenBetweenWords(t *testing.T) {
	var out bytes.Buffer
	terminal := hanging{&out, func(any) int { return 30 }}
	if n, err := terminal.Write([]byte("short  line\n" + Yellow.Paint("WRN") +
		" the guardian ended, and another one takes its place\n  next: exthost restart a-long-extension\n")); n == 0 ||
		err != nil {
		t.Errorf("%d, %v", n, err)
	}
	want := "short  line\n" + Yellow.Paint("WRN") +
		" the guardian ended, and\n    another one takes its\n    place\n  next: exthost restart\n      " +
		"a-long-extension\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"no module named something":     "no module named…",
		"no module named x y":           "no module named x y",
		"/a/path/without/a/space/in/it": "/a/path/without/a/s…",
	} {
		if got := Cut(text, 20); got != want {
			t.Errorf("Cut(%q) = %q, want %q", text, got, want)
		}
	}
}

// Escaping does not change the meaning of JSON and YAML.
func TestEscapingKeepsTheMeaning(t *testing.T) {
	value := map[string]any{
		"esc\x1b":       "\x1b[2J",
		"c1":            "\u009b",
		"bidi":          "\u202e",
		"tag":           "\U000e0041\U0010ffff🙂",
		"text":          "two\nlines: x",
		"html":          "<&>",
		"like a number": "1",
	}
	for _, form := range []string{"json", "yaml"} {
		var out bytes.Buffer
		c := &Console{Out: &out, Output: form}
		if err := c.Print(Document{Kind: "value", Value: value}); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && Invisible(r) }); i >= 0 {
			t.Errorf("%s holds %q at %d", form, out.String()[i:], i)
		}
		var back struct {
			Value map[string]any
		}
		err := json.Unmarshal(out.Bytes(), &back)
		if form == "yaml" {
			err = yaml.Unmarshal(out.Bytes(), &back)
		}
		if diff := cmp.Diff(value, back.Value); err != nil || diff != "" {
			t.Errorf("%s comes back as another (%v):\n%s\n%s", form, err, diff, &out)
		}
	}
}

func TestColours(t *testing.T) {
	for _, test := range []struct {
		flag, noColor, force string
		want                 bool
	}{
		{flag: "auto"}, // a buffer is no terminal
		{flag: "always", noColor: "1", want: true},
		{flag: "never", force: "1"},
		{flag: "auto", force: "1", want: true},
		{flag: "auto", force: "1", noColor: "1"},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("CLICOLOR_FORCE", test.force)
		c := &Console{Err: new(bytes.Buffer), Color: test.flag}
		if got := c.ColoursOn(c.Err); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// Paths below the working directory become relative to it; in the root directory, URLs stay whole.
func TestNearbyText(t *testing.T) {
	dir := t.TempDir()
	const url = "https://mcp.example/mcp refuses"
	t.Chdir(dir)
	if got := NearbyText(filepath.Join(dir, "x.sh") + ": " + url); got != "x.sh: "+url {
		t.Error(got)
	}
	t.Chdir(filepath.VolumeName(dir) + string(filepath.Separator))
	if got := NearbyText(url); got != url {
		t.Error(got)
	}
}
