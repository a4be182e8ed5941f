package text

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShellLine checks that a shell splits the line into the same words, and that quotes are only where it needs them.
func TestShellLine(t *testing.T) {
	words := []string{"exthost", "--listen=127.0.0.1:0", "", "my own", "it's", "$HOME", "*", `a"b\c`, "~"}
	line := ShellLine(words)
	got, err := ShellWords(line)
	if diff := cmp.Diff(words, got); diff != "" || err != nil {
		t.Errorf("%s: %v\n%s", line, err, diff)
	}
	if got := ShellLine([]string{"exthost", "--listen=127.0.0.1:0"}); got != "exthost --listen=127.0.0.1:0" {
		t.Errorf("quotes that no shell needs: %s", got)
	}
}
