package text

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A shell splits a joined line into the same words, and quotes are only where it needs them.
func TestShellJoin(t *testing.T) {
	words := []string{"exthost", "--listen=127.0.0.1:0", "", "my own", "it's", "$HOME", "*", `a"b\c`, "~"}
	line := ShellJoin(words)
	got, err := ShellWords(line)
	if diff := cmp.Diff(words, got); diff != "" || err != nil {
		t.Errorf("%s: %v\n%s", line, err, diff)
	}
	if got := ShellJoin([]string{"exthost", "--listen=127.0.0.1:0"}); got != "exthost --listen=127.0.0.1:0" {
		t.Errorf("quotes that no shell needs: %s", got)
	}
}
