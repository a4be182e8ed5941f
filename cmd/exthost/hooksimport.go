package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/hookimport"
)

func (a *app) hooksImportCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn the hooks of Claude Code's settings into a hooks section of our configuration",
		Long: "Read a settings.json of Claude Code, or the hooks.json of a plugin of it, and print its\n" +
			"hooks as our configuration states them. Their command lines are for a shell there, so\n" +
			"they are given to sh -c; a hook that breaks stops nobody there, so on_error is allow.\n" +
			"What cannot be carried over is said on stderr.",
		Example: "  exthost hooks import ~/.claude/settings.json --file config/hooks.yaml",
		Args:    one("the path of a settings.json"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.importHooks(args[0], file) },
	}
	cmd.Flags().StringVar(&file, "file", "", "write to a new `FILE` instead of stdout")
	return cmd
}

func (a *app) importHooks(path, file string) error {
	data, err := readNamed(path, maxSettings, "exthost hooks import ~/.claude/settings.json")
	if err != nil {
		return err
	}
	r, err := hookimport.Read(data)
	if err != nil {
		return &exitError{code: exitInvalid, text: fmt.Sprintf("%s: %v", path, err), hint: "the file is JSON, with hooks: {EVENT: [{matcher, hooks: [...]}]}"}
	}
	for _, n := range r.Notes {
		level, prefix := a.paint(dim, "info"), ""
		if n.Dropped {
			level, prefix = a.paint(yellow, "warn"), "left out: "
		}
		fmt.Fprintf(a.err, "%s: %s: %s%s\n", level, safe(n.Where), prefix, safe(n.Message))
	}
	if file == "" {
		return a.print(document{Kind: "import", Value: r, Text: safeText(string(r.YAML()))})
	}
	if err := writeNew(file, r.YAML()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.err, "%s written to %s\n  next: exthost hooks list\n", plural(r.Hooks, "hook"), safe(file))
	return err
}

// writeNew writes a file that must not be there yet.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &exitError{code: exitFailed, text: path + " is there already", hint: "print the hooks without --file, and add them to it"}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
