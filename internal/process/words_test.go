package process

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitCommand(t *testing.T) {
	for s, want := range map[string][]string{
		`npx -y @scope/server`:              {"npx", "-y", "@scope/server"},
		"  a \t b\n":                        {"a", "b"},
		`a 'b c' "d e" f\ g`:                {"a", "b c", "d e", "f g"},
		`a '' ""`:                           {"a", "", ""},
		`a 'x'"y"z`:                         {"a", "xyz"},
		`a "\"\\\$\` + "`" + `\n"`:          {"a", `"\$` + "`" + `\n`},
		`a '$(x) | $HOME *'`:                {"a", "$(x) | $HOME *"},
		`a "|;*~#"`:                         {"a", "|;*~#"},
		`a --k=v B=c x~y x#y`:               {"a", "--k=v", "B=c", "x~y", "x#y"},
		`'A=b' c`:                           {"A=b", "c"},
		`./a=b c`:                           {"./a=b", "c"},
		`uvx "${PKG:-mcp server}" --t=${T}`: {"uvx", "${PKG:-mcp server}", "--t=${T}"},
		`a ${X:-b c}`:                       {"a", "${X:-b c}"},
		`a 5$ $`:                            {"a", "5$", "$"},
		`a \|\*`:                            {"a", "|*"},
		`übung ÿ`:                           {"übung", "ÿ"},
	} {
		got, err := SplitCommand(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s, diff)
		}
	}
}

func TestSplitCommandRefusesShell(t *testing.T) {
	for s, want := range map[string]string{
		"":                "empty",
		" \n":             "empty",
		"a | b":           "a pipe",
		"a && b":          "a command list",
		"a; b":            "a command list",
		"a\nb":            "a second command",
		"a > f":           "a redirection",
		"a 2>&1":          "a redirection",
		"a < f":           "a redirection",
		"(a)":             "a subshell",
		"a *.py":          "a glob",
		"a x?":            "a glob",
		"a [ab]":          "a glob",
		"a $(b)":          "a command substitution",
		`a "$(b)"`:        "a command substitution",
		"a `b`":           "a command substitution",
		"a \"`b`\"":       "a command substitution",
		"a $HOME":         "write ${NAME}",
		`a "$HOME"`:       "write ${NAME}",
		"a $1":            "write ${NAME}",
		"a $$":            "write ${NAME}",
		"~/bin/a":         "a home directory",
		"a # b":           "a comment",
		"A=b c":           "put it under env",
		"TOKEN='x y' cmd": "TOKEN=…",
		"a 'b":            "never closed",
		`a "b`:            "never closed",
		"a ${B":           "never closed",
		`a \`:             `lone \`,
		"a\x00b":          "NUL",
	} {
		got, err := SplitCommand(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", s, got, err, want)
		}
	}
}

// Words quoted by a shell's rules come back as they were.
func FuzzSplitCommand(f *testing.F) {
	f.Add("a", "b c")
	f.Add("$(x)", `\"'`)
	f.Add("", "|")
	f.Fuzz(func(t *testing.T, a, b string) {
		want := []string{a, b}
		if strings.ContainsRune(a+b, 0) {
			return
		}
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
		got, err := SplitCommand(quote(a) + " " + quote(b))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
		SplitCommand(a + b) // must not panic, whatever it says
	})
}
