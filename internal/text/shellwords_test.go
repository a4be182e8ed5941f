package text

import (
	"slices"
	"strings"
	"testing"
)

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                     nil,
		"  a  b\t":             {"a", "b"},
		`a 'b c' "d 'e'" f\ g`: {"a", "b c", "d 'e'", "f g"},
		`k="v w"x '' `:         {"k=v wx", ""},
		`"a\"b" 'a\b' "a\b"`:   {`a"b`, `a\b`, "ab"},
		`j:={"a":1}`:           {"j:={a:1}"},
		`j:='{"a":1}'`:         {`j:={"a":1}`},
		"é\\ü a|b $c":          {"éü", "a|b", "$c"},
	} {
		if got, err := ShellWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{`a "b`, `a 'b`, `a\`, `"a\`} {
		if got, err := ShellWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestCommandWords(t *testing.T) {
	for line, want := range map[string][]string{
		`a b  c`:               {"a", "b", "c"},
		`a 'b c' "d \"e\" $f"`: {"a", "b c", `d "e" $f`},
		`a "b\c" "d\\e"`:       {"a", `b\c`, `d\e`},
		`a b\ c ''`:            {"a", "b c", ""},
		`a x=1 ${V:-d} {p} b#`: {"a", "x=1", "${V:-d}", "{p}", "b#"},
		``:                     nil,
	} {
		if got, err := CommandWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		`a | b`:   "'|' means",
		`a > b`:   "'>' means",
		`a && b`:  "'&' means",
		`a *.go`:  "'*' means",
		`A=b c`:   "sets a variable",
		`a $HOME`: "'$' means",
		"a `b`":   "'`' means",
		`a $(b)`:  "'$' means",
		`a # b`:   "'#' means",
		`a \`:     `'\\' means`,
		`a 'b`:    "the quote ' is not closed",
	} {
		if got, err := CommandWords(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %s", line, got, err, want)
		}
	}
}
