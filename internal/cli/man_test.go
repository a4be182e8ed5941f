package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
)

// Every command has a manual page with every word of its description. A Markdown processor on the way would take * and
// _ for emphasis.
func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "share", "man1")
	cmd := root(&console.Console{In: os.Stdin, Out: io.Discard, Err: io.Discard}, new(hangup))
	cmd.SetArgs([]string{"help", "--man", dir})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(`\fB`, "", `\fI`, "", `\fP`, "", `\fR`, "", `\&`, "", `\-`, "-", `\\`, `\`, `\(aq`,
		"'")
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() || cmd.Name() == "completion" { // completion is written by cobra
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		page := plain.Replace(string(text))
		for word := range strings.FieldsSeq(cmd.Short + " " + cmd.Long + " " + cmd.Example) {
			if !strings.Contains(page, word) {
				t.Errorf("%s: the page lacks %s", cmd.CommandPath(), word)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	for _, sub := range cmd.Commands() {
		check(sub)
	}
}
