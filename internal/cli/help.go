package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
)

// first are the commands that exthost help names, in this order. The screen fits a terminal of 24 lines.
var first = []string{"serve", "connect", "add", "trust", "status", "call", "calls", "logs", "init", "dev"}

// addHelp gives root the help command, and the help that names the commands that matter most.
func addHelp(root *cobra.Command) {
	whole := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd != root {
			whole(cmd, args)
			return
		}
		fmt.Fprint(cmd.OutOrStdout(), firstHelp(root))
	})
	var pages string
	cmd := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does; all: list every command",
		Long: "Show what a command does and its flags. exthost help all lists every\ncommand, in groups.\n\n" +
			"--man writes the help of every command as manual pages into DIR, for\n" +
			"packagers: exthost.1, exthost-serve.1 and so on. DIR is made if it is missing.",
		Example: "  exthost help all\n  exthost help calls audit\n  exthost help --man ~/.local/share/man/man1",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case pages != "" && len(args) > 0:
				return console.Usagef("exthost help --man "+pages, "--man writes all pages, and %q is too much",
					args[0])
			case pages != "":
				return writePages(root, pages)
			case len(args) == 1 && args[0] == "all":
				whole(root, args)
				return nil
			}
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return console.UnknownCommand(cmd, strings.Join(rest, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
		SuggestFor: []string{"man", "commands"},
	}
	cmd.Flags().StringVar(&pages, "man", "", "write all manual pages into `DIR`")
	root.SetHelpCommand(cmd)
}

// firstHelp returns the help of exthost itself: how it is used, and its most important commands.
func firstHelp(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("exthost runs the extensions of a directory and serves their tools to agents,\n" +
		"over MCP or as a Go library.\n\nUsage: exthost COMMAND [flags]\n\n")
	for _, name := range first {
		if cmd, _, err := root.Find([]string{name}); err == nil {
			fmt.Fprintf(&b, "  %-8s  %s\n", name, cmd.Short)
		}
	}
	b.WriteString("\nexthost init NAME --lang python    begin with an extension of your own,\n" +
		"exthost add npm:PACKAGE            with one of others, or with those of your\n" +
		"exthost import                     MCP clients; then exthost serve\n\n" +
		"exthost help all                   all commands, exit codes and common flags\n" +
		"exthost COMMAND --help             what a command does, and its flags\n")
	return b.String()
}

// writePages writes a manual page for each command into dir.
func writePages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true // applies to subcommands too
	return doc.GenManTree(root, &doc.GenManHeader{Source: "exthost " + exthost.Version(), Manual: "exthost"}, dir)
}
