package operate

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// Alone returns what exthost does without a command: beside a running host it prints the verdict about it, else the
// help.
func Alone(c *console.Console) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		r, err := hosts.Find(cmd.Context())
		if killed, ok := errors.AsType[*hosts.Killed](err); ok {
			c.Warn("%s", console.Safe(killed.Error()))
		}
		switch {
		case err != nil && c.Host != "":
			return err
		case err != nil:
			return cmd.Help()
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

// verdictDocument returns a document with the verdict about a host.
func verdictDocument(c *console.Console, v status.Verdict) console.Document {
	lines := console.Wrap(hosts.Sentence(v), c.Layout(false).Width)
	return console.Document{
		Kind:  "verdict",
		Value: v,
		Names: []string{string(v.Word)},
		Text:  strings.Join(lines, "\n"),
	}
}
