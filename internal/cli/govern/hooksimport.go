package govern

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/hookimport"
)

func hooksImport(c *console.Console) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn the hooks of Claude Code's settings into a hooks section of our configuration",
		Long: "Read a settings.json of Claude Code, or the hooks.json of a plugin of it, and print its\n" +
			"hooks as our configuration states them. Their command lines are for a shell there, so\n" +
			"they are given to sh -c; a hook that breaks stops nobody there, so on_error is allow.\n" +
			"What cannot be carried over is said on stderr.",
		Example: "  exthost hooks import ~/.claude/settings.json --file config/hooks.yaml",
		Args:    console.One("the path of a settings.json"),
		RunE:    func(_ *cobra.Command, args []string) error { return importHooks(c, args[0], file) },
	}
	cmd.Flags().StringVar(&file, "file", "", "write to a new `FILE` instead of stdout")
	return cmd
}

func importHooks(c *console.Console, path, file string) error {
	data, err := console.ReadFile(path, console.MaxSettings, "exthost hooks import ~/.claude/settings.json")
	if err != nil {
		return err
	}
	r, err := hookimport.Read(data)
	if err != nil {
		return &console.Error{Code: console.ExitInvalid, Text: fmt.Sprintf("%s: %v", path, err), Hint: "the file is JSON, with hooks: {EVENT: [{matcher, hooks: [...]}]}"}
	}
	for _, n := range r.Notes {
		c.Note(n.Where, n.Dropped, n.Message)
	}
	if file == "" {
		return c.Print(console.Document{Kind: "import", Value: r, Text: console.SafeText(string(r.YAML()))})
	}
	if err := writeNew(file, r.YAML()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Err, "%s written to %s\n  next: exthost hooks list\n", console.Plural(len(r.Hooks), "hook"), console.Safe(file))
	return err
}

// writeNew writes a file that must not exist.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &console.Error{Code: console.ExitFailed, Text: path + " is there already", Hint: "print the hooks without --file, and add them to it"}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
