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
	cmd := whole()
	for _, sub := range cmd.Commands() {
		if sub.GroupID == "" && !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			t.Errorf("%s belongs to no group", sub.Name())
		}
	}
	fits(t, "exthost help all", says(t, "help", "all"))
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.InitDefaultHelpFlag()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fits(t, cmd.CommandPath()+" --help", out.String())
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" && sub.Parent().Name() != "completion" { // written by cobra
				check(sub)
			}
		}
	}
	check(cmd)
}

// The help of the program itself fits a terminal of 24 lines, and its top level has few commands. All of them are in
// exthost help all.
func TestFirstHelp(t *testing.T) {
	short, all, commands := says(t), says(t, "help", "all"), 0
	if short != says(t, "help") || short != says(t, "--help") {
		t.Error("exthost, exthost help and exthost --help differ")
	}
	if n := strings.Count(short, "\n"); n > 23 { // the prompt has the last line
		t.Errorf("%d lines", n)
	}
	for _, name := range first {
		if !strings.Contains(short, "\n  "+name+" ") {
			t.Errorf("it does not name %s:\n%s", name, short)
		}
	}
	for _, sub := range whole().Commands() {
		if sub.Hidden {
			continue
		}
		if commands++; !strings.Contains(all, "\n  "+sub.Name()+" ") {
			t.Errorf("exthost help all does not name %s:\n%s", sub.Name(), all)
		}
	}
	if commands > 32 {
		t.Errorf("%d commands are more than anybody learns", commands)
	}
}

// A word that is no command leads to the command that does it.
func TestSuggestedCommands(t *testing.T) {
	for word, want := range map[string]string{
		"list":    `did you mean "status"?`,
		"doctor":  `did you mean "check"?`,
		"login":   `did you mean "secret login"?`,
		"approve": `did you mean "calls approve"?`,
		"explain": `did you mean "calls"?`,
		"stauts":  `did you mean "status"?`,
	} {
		cmd := whole()
		cmd.SetArgs([]string{word})
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("exthost %s: %v", word, err)
		}
	}
}

// whole returns the commands of the program, with those that cobra adds at the start.
func whole() *cobra.Command {
	cmd := root(&console.Console{In: os.Stdin, Out: io.Discard, Err: io.Discard}, new(hangup))
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	return cmd
}

// says returns what the program prints.
func says(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := root(&console.Console{In: os.Stdin, Out: &out, Err: io.Discard}, new(hangup))
	cmd.SetArgs(append([]string{}, args...))
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func fits(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > 80 {
			t.Errorf("%s: %d columns: %s", what, utf8.RuneCountInString(line), line)
		}
	}
}
