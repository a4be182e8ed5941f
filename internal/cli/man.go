package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/exthost/exthost/internal/cli/console"
)

// man returns the command that writes the help of every command as manual pages, for packagers.
func man() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: "man writes a page for each command: exthost.1, exthost-serve.1 and so on. The folder is made if it " +
			"is missing.",
		Example: "  exthost man ~/.local/share/man/man1\n" +
			"  man exthost-serve",
		Args: console.One("the folder for the pages"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // applies to subcommands too
			return doc.GenManTree(root, &doc.GenManHeader{Source: root.Version, Manual: "exthost"}, args[0])
		},
	}
}
