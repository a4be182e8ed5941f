package cli

import (
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/bundled"
	"github.com/exthost/exthost/internal/cli/console"
)

// extension is how the program runs itself as one of its own extensions.
func extension() *cobra.Command {
	return &cobra.Command{
		Use: "extension NAME", Short: "Be one of the bundled extensions, on stdin and stdout", Hidden: true,
		Args: console.One("the name of a bundled extension"),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Reset() // SIGTERM has to end an extension at once
			code, err := bundled.Run(args[0])
			if err != nil {
				return &console.Error{Code: console.ExitNotFound, Text: err.Error()}
			}
			if code != 0 {
				return console.Reported(code)
			}
			return nil
		},
	}
}

func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show what a command does",
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return console.UnknownCommand(cmd, strings.Join(rest, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
