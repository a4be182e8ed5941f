package console

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns of help texts.
const helpWidth = 80

// FitHelp wraps the help of cmd and all commands below it to 80 columns.
func FitHelp(cmd *cobra.Command) {
	cobra.AddTemplateFunc("wrappedFlags", func(f *pflag.FlagSet) string { return f.FlagUsagesWrapped(helpWidth) })
	cmd.SetUsageTemplate(strings.NewReplacer(
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
		"{{.CommandPath}} COMMAND --help says more about a command.",
		".LocalFlags.FlagUsages", "wrappedFlags .LocalFlags",
		".InheritedFlags.FlagUsages", "wrappedFlags .InheritedFlags").Replace(cmd.UsageTemplate()))
	fitLong(cmd)
}

func fitLong(cmd *cobra.Command) {
	cmd.Long = reflow(cmd.Long)
	for _, sub := range cmd.Commands() {
		fitLong(sub)
	}
}

// reflow wraps the paragraphs of a text. Empty and indented lines stay as they are.
func reflow(text string) string {
	var lines, paragraph []string
	end := func() {
		if paragraph != nil {
			lines = append(lines, Wrap(strings.Join(paragraph, " "), helpWidth)...)
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(lines, "\n")
}

// PlainFlags removes the backquotes from the flag texts of cmd and all commands below it: shell completion shows the
// texts verbatim.
func PlainFlags(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		PlainFlags(sub)
	}
}
