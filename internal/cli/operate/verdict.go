package operate

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// Alone returns what exthost does without a command: it prints the verdict about the host of the directory. Where no
// host has run yet it prints the help.
func Alone(c *console.Console) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		r, err := hosts.Find(cmd.Context())
		absent, none := errors.AsType[*console.Error](err)
		none = none && absent.Code == console.ExitNotFound
		switch {
		case none && c.Host == "" && !hosts.Served():
			return cmd.Help()
		case none && c.Host == "":
			d := verdictDocument(c, noHost(absent))
			d.Text += "\nexthost status shows what is on disk, exthost help the commands"
			return cmp.Or(c.Print(d), console.Reported(console.ExitNotFound))
		case err != nil:
			return err
		}
		s, _, err := r.StatusOnDisk(cmd.Context(), c)
		if err != nil {
			return err
		}
		d := verdictDocument(c, s.Verdict)
		d.Text += "\nexthost status shows more, exthost help the commands"
		return c.Print(d)
	}
}

// verdictDocument returns v as a document, whose text is its sentence wrapped to the terminal.
func verdictDocument(c *console.Console, v status.Verdict) console.Document {
	lines := console.Wrap(hosts.Sentence(v), c.Layout(false).Width)
	return console.Document{
		Kind:  "verdict",
		Value: v,
		Names: []string{string(v.Word)},
		Text:  strings.Join(lines, "\n"),
	}
}
