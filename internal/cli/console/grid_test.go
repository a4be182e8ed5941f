package console

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrid(t *testing.T) {
	rows := [][]string{
		{"ID", "WHAT"},
		{"longer", "one two three four five six"},
		{"x", ""},
		{"a line of its own, and a long one"},
	}
	for _, test := range []struct {
		width int
		fold  bool
		want  []string
	}{
		{0, false, []string{
			"ID      WHAT",
			"longer  one two three four five six",
			"x",
			"a line of its own, and a long one",
		}},
		{30, false, []string{"ID      WHAT", "longer  one two three four…", "x", "a line of its own, and a long…"}},
		{30, true, []string{
			"ID      WHAT",
			"longer  one two three four",
			"        five six",
			"x",
			"a line of its own, and a long",
			"one",
		}},
	} {
		if diff := cmp.Diff(test.want, Layout{Width: test.width, Fold: test.fold}.Grid(rows)); diff != "" {
			t.Errorf("at %d columns:\n%s", test.width, diff)
		}
	}
}

// A long name does not narrow other rows: the last cell of its own row moves to the next line.
func TestGridWithALongName(t *testing.T) {
	rows := [][]string{
		{"ID", "WHAT"},
		{"an-extension-with-a-long-name", "one two three four"},
		{"calc", "five six seven eight nine ten eleven"},
	}
	want := []string{
		"ID    WHAT", "an-extension-with-a-long-name", "    one two three four", "calc  five six seven eight nine ten",
		"      eleven",
	}
	if diff := cmp.Diff(want, Layout{Width: 40, Fold: true}.Grid(rows)); diff != "" {
		t.Error(diff)
	}
}

// On a narrow terminal, columns are dropped before the last cell is cut.
func TestGridDropsColumns(t *testing.T) {
	for width, want := range map[int][]string{
		0:  {"ID   PID   STATE   NOTE", "kit  4711  failed  the process ended: exit status 3", "1 extension"},
		45: {"ID   STATE   NOTE", "kit  failed  the process ended: exit status 3", "1 extension"},
		30: {"ID   NOTE", "kit  the process ended: exit…", "1 extension"},
	} {
		rows := [][]string{
			{"ID", "PID", "STATE", "NOTE"},
			{"kit", "4711", "failed", "the process ended: exit status 3"},
			{"1 extension"},
		}
		if diff := cmp.Diff(want, Layout{Width: width, Drop: []string{"PID", "STATE", "NONE"}}.Grid(rows)); diff != "" {
			t.Errorf("at %d columns:\n%s", width, diff)
		}
	}
}

// Titles are bold, state words are coloured only as whole cells, and columns stay aligned.
func TestGridColours(t *testing.T) {
	paint := func(c Colour, s string) string { return "<" + string(c) + " " + s + ">" }
	rows := [][]string{{"STATE", "NOTE"}, {"ok", "failed once"}, {"failed", "error: no file"}, {"nice", "x"}}
	want := []string{
		"<1 STATE>   <1 NOTE>",
		"<32 ok>      failed once",
		"<31 failed>  <31 error:> no file",
		"nice    x",
	}
	if diff := cmp.Diff(want, Layout{Paint: paint}.Grid(rows)); diff != "" {
		t.Error(diff)
	}
}
