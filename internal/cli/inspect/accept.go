package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
)

// acceptance holds the flags and arguments of tools accept.
type acceptance struct {
	id, label string
	expect    string // digest of the differences that the operator has seen; "": none yet
	yes       bool
}

func toolsAccept(c *console.Console) *cobra.Command {
	var a acceptance
	cmd := &cobra.Command{
		Use:         "accept ID [TOOL]",
		Short:       "Accept changed tools of an extension, or one of them (persists)",
		Annotations: console.AsksHost,
		Long: "Accept what an extension says of itself now, after an update for example: its tools, and with a\n" +
			"policy of builtin: pin its introduction, prompts and resources too. It ends the warning that tools\n" +
			"changed, also for later hosts, and nothing is held back any more. TOOL is the extension's own name\n" +
			"of a tool, or another label that exthost policy pins shows, such as prompt:review.\n\n" +
			"The command shows the differences and asks. It accepts what it has shown and nothing else. --expect\n" +
			"accepts what exthost policy pins has shown; --yes accepts without a question, for scripts.",
		Example: "  exthost tools accept notes\n  exthost tools accept notes --yes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return console.Usagef("exthost status",
					"%s needs the id of an extension, and may name one of its tools", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.id, a.label = args[0], strings.Join(args[1:], "")
			return a.run(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&a.expect, "expect", "", "accept only the differences with this `DIGEST`")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "accept what the command shows without a question")
	return cmd
}

func (a *acceptance) run(ctx context.Context, c *console.Console) error {
	pinned, err := hosts.OpenPins(ctx, c)
	if err != nil {
		return err
	}
	defer pinned.Close()
	waiting := pinned.Waiting(a.id, a.label)
	if len(waiting) > 0 {
		fmt.Fprintln(c.Err, hosts.PinsText(waiting))
		if err := a.agreed(ctx, c, hosts.DigestOf(waiting)); err != nil {
			return err
		}
	}
	err = pinned.Accept(ctx, a.id, a.label, waiting)
	if len(waiting) == 0 && protocol.KindOf(err) == protocol.ToolNotFound {
		return &console.Error{
			Code:  console.ExitNotFound,
			Text:  protocol.Reason(err),
			Hint:  "exthost policy pins shows what waits",
			Cause: err,
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Err, "accepted %s\n", console.Safe(strings.TrimSpace(a.id+" "+a.label)))
	return err
}

// agreed returns an error unless the operator accepts the differences with this digest.
func (a *acceptance) agreed(ctx context.Context, c *console.Console, digest string) error {
	command := []string{"exthost", "tools", "accept", a.id}
	if a.label != "" {
		command = append(command, a.label)
	}
	next := text.ShellLine(append(command, "--expect", digest))
	switch {
	case a.expect == digest, a.expect == "" && a.yes:
		return nil
	case a.expect != "":
		return &console.Error{
			Code: console.ExitDenied,
			Text: "this is not what --expect states, and nothing was accepted",
			Hint: next,
		}
	case !c.Interactive():
		return &console.Error{
			Code: console.ExitDenied,
			Text: "nothing was accepted: without a terminal nobody can be asked",
			Hint: next,
		}
	}
	if yes, err := c.Yes(ctx); err != nil || yes {
		return err
	}
	return &console.Error{Code: console.ExitDenied, Text: "nothing was accepted", Hint: next}
}
