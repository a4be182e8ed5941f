package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func (a *app) reloadCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Bring the running exthost to what its folders and files hold now",
		Long: "Have the exthost that serves this directory look again: what is new is started, what has\n" +
			"changed is started beside what runs and then takes its place, what is gone ends once its\n" +
			"calls have. What is broken changes nothing: the build before goes on. The same as SIGHUP.\n" +
			"The exit code is 3 while a manifest is broken, and 7 when an extension does not start.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.running(cmd.Context())
			if err != nil {
				return err
			}
			c, err := r.reload(cmd.Context(), dryRun)
			if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ConfigInvalid {
				return &exitError{code: exitInvalid, text: e.Message, hint: "mend it, then exthost reload; until then everything goes on as it was"}
			}
			if err != nil {
				return err
			}
			if err := a.print(document{Kind: "change", Value: c, Names: changedNames(c), Text: a.changeText(c, dryRun)}); err != nil {
				return err
			}
			broken := 0
			if !dryRun {
				broken = a.sayBroken(cmd.Context(), r)
			}
			return notReloaded(c, broken)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would happen")
	return cmd
}

// sayBroken tells on stderr which files have become no extension, and returns how many
// there are: to a reload they are no change.
func (a *app) sayBroken(ctx context.Context, r *running) int {
	s, err := r.status(ctx)
	if err != nil {
		return 0 // the reload itself has been told
	}
	for _, d := range unlisted(s) {
		if d.Level == protocol.LevelError {
			a.say(d)
		}
	}
	return len(brokenFiles(s))
}

// changedNames are the ids that a reload touches.
func changedNames(c status.Change) []string {
	names := append(append(append(append([]string{}, c.Added...), c.Changed...), c.Removed...), c.Retried...)
	for _, k := range c.Kept {
		names = append(names, k.ID)
	}
	return names
}

// changeText is a line for each extension that a reload touches.
func (a *app) changeText(c status.Change, dryRun bool) string {
	if c.Empty() {
		return "nothing has changed"
	}
	var b strings.Builder
	verb := map[bool][]string{
		false: {"added", "replaced", "removed", "retried", "kept", "changed"},
		true:  {"would add", "would replace", "would remove", "would retry", "would keep", "would change"},
	}[dryRun]
	for i, ids := range [][]string{c.Added, c.Changed, c.Removed, c.Retried} {
		for _, id := range ids {
			fmt.Fprintf(&b, "%s %s\n", a.paint(green, fmt.Sprintf("%-*s", len(verb[1]), verb[i])), safe(id))
		}
	}
	for _, k := range c.Kept {
		fmt.Fprintf(&b, "%s %s as it was:\n", a.paint(yellow, fmt.Sprintf("%-*s", len(verb[1]), verb[4])), safe(k.ID))
		for reason := range strings.SplitSeq(k.Reason, "\n") {
			fmt.Fprintln(&b, "    "+safe(nearbyText(reason)))
		}
	}
	for _, name := range c.Policies {
		fmt.Fprintf(&b, "%s policy %s\n", a.paint(green, fmt.Sprintf("%-*s", len(verb[1]), verb[5])), safe(name))
	}
	for _, section := range c.Restart {
		fmt.Fprintf(&b, "%s has changed and counts when exthost is started again\n", section)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// notReloaded is the error of a reload that did not do all it was to, with so many
// broken files besides.
func notReloaded(c status.Change, broken int) error {
	var lines []string
	for _, d := range c.Failed {
		lines = append(lines, safe(nearby(d).String()))
	}
	switch {
	case len(lines) > 0:
		return &exitError{code: exitExtension, text: strings.Join(lines, "\n"), hint: "exthost info " + c.Failed[0].Extension}
	case len(c.Kept)+broken > 0:
		return &exitError{code: exitInvalid, text: count(len(c.Kept)+broken, "extension") + " cannot be used yet", hint: "mend what is said above, then exthost reload"}
	}
	return nil
}

// reread is how a running host reads its configuration again: as it did when it
// was started.
func (a *app) reread(flags []config.Flag) func() (*config.Config, error) {
	return func() (*config.Config, error) {
		cfg, _, err := a.load(flags...)
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "%w", err)
		}
		return cfg, nil
	}
}

// disabler is how a running host writes down what its operator disables; nil when
// what it reads is not what it would write to.
func (a *app) disabler() func(id string, disabled bool) error {
	if len(a.flags.extensions) > 0 {
		return nil
	}
	return func(id string, disabled bool) error {
		_, err := config.SetListed(a.loadOptions(), "disabled", id, disabled)
		return err
	}
}
