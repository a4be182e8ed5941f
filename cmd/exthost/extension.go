package main

import (
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/bundled"
)

// extensionCommand is how the program runs itself as one of its own extensions.
func (a *app) extensionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "extension NAME", Short: "Be one of the bundled extensions, on stdin and stdout", Hidden: true,
		Args: one("the name of a bundled extension"),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Reset() // to SIGTERM an extension ends, as its host expects
			code, err := bundled.Run(args[0])
			if err != nil {
				return &exitError{code: exitNotFound, text: err.Error()}
			}
			if code != 0 {
				return errReported(code)
			}
			return nil
		},
	}
}
