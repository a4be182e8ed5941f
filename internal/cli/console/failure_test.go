package console

import "testing"

// The form of an error's document is that of -o and --output, never a word that is an argument.
func TestFormAskedFor(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"init", "json"}, "table"},
		{[]string{"skills", "-o", "json", "yaml"}, "json"},
		{[]string{"--output=yaml", "--odd"}, "yaml"},
		{[]string{"--output", "name", "--odd"}, "name"},
		{[]string{"-ojson", "x"}, "json"},
		{[]string{"-o=json", "x"}, "json"},
		{[]string{"x", "-o"}, "table"},
		{[]string{"x", "-o", "odd"}, "table"},
		{[]string{"x", "--", "-o", "json"}, "table"},
	} {
		c := &Console{Output: "table"}
		if c.AskedFor(tt.args); c.Output != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, c.Output, tt.want)
		}
	}
}
