package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
)

// Every line of every command's help fits a terminal of 80 columns, and every top-level command belongs to a group.
func TestHelpFits(t *testing.T) {
	c := &console.Console{In: os.Stdin, Out: io.Discard, Err: io.Discard}
	cmd := root(c, new(hangup))
	cmd.InitDefaultCompletionCmd()
	for _, sub := range cmd.Commands() {
		if sub.GroupID == "" && !sub.Hidden && sub.Name() != "help" && sub.Name() != "version" && sub.Name() != "man" &&
			sub.Name() != "completion" {
			t.Errorf("%s belongs to no group", sub.Name())
		}
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.InitDefaultHelpFlag()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" && sub.Parent().Name() != "completion" { // written by cobra
				check(sub)
			}
		}
	}
	check(cmd)
}
