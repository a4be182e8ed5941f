package console

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns of help texts.
const helpWidth = 80

// FitHelp wraps the help of cmd and all commands below it to 80 columns. It edits what cobra writes, and states no
// template: with package text/template in a program, the linker keeps every exported method.
func FitHelp(cmd *cobra.Command) {
	plain := new(cobra.Command).UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		var text bytes.Buffer
		out := c.OutOrStderr()
		c.SetOut(&text)
		err := plain(c)
		c.SetOut(out)
		edited := strings.Replace(text.String(),
			`Use "`+c.CommandPath()+` [command] --help" for more information about a command.`,
			c.CommandPath()+" COMMAND --help says more about a command.", 1)
		edited = wrapFlags(wrapFlags(edited, c.LocalFlags()), c.InheritedFlags())
		_, failed := io.WriteString(out, edited)
		return errors.Join(err, failed)
	})
	fitLong(cmd)
}

// wrapFlags wraps the part of text that describes flags.
func wrapFlags(text string, flags *pflag.FlagSet) string {
	long := strings.TrimRight(flags.FlagUsages(), " \n")
	if long == "" {
		return text
	}
	return strings.Replace(text, long, strings.TrimRight(flags.FlagUsagesWrapped(helpWidth), " \n"), 1)
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
