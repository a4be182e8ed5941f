package govern

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

func policyPins(c *console.Console) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "Show the tools that have changed since they were pinned, and approve that",
		Long: "Show the tools that a policy of builtin: pin holds back, because they do not say of\n" +
			"themselves what they said when they were first seen, with the difference; --all shows all\n" +
			"that are pinned.",
		Example: "  exthost policy pins\n  exthost policy pins approve notes add",
		Args:    console.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return pins(cmd.Context(), c, all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that have not changed")
	cmd.AddCommand(&cobra.Command{
		Use:   "approve ID [TOOL]",
		Short: "Let a changed tool of an extension pass, or all of them, and pin what they say now",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return console.Usagef("exthost policy pins", "%s needs the id of an extension, and may name one of its tools", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := hosts.Find(cmd.Context())
			if err != nil {
				return err
			}
			path := "/api/v1/pins"
			for _, arg := range args {
				path += "/" + url.PathEscape(arg)
			}
			if err := r.Post(cmd.Context(), path+"/approve", nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Err, "approved %s\n", console.Safe(strings.Join(args, " ")))
			return err
		},
	})
	return cmd
}

func pins(ctx context.Context, c *console.Console, all bool) error {
	r, cfg, err := hosts.Reach(ctx, c)
	var list struct{ Pins []exthost.Pin }
	if r != nil {
		err = r.Get(ctx, "/api/v1/pins", &list)
	} else if err == nil {
		var h *exthost.Host
		if h, err = hosts.Open(ctx, c, cfg, exthost.Options{Start: hosts.None, Inspect: true}); err == nil {
			list.Pins = h.Admin().Pins()
			err = h.Close()
		}
	}
	if err != nil {
		return err
	}
	shown, names := []exthost.Pin{}, []string{}
	for _, p := range list.Pins {
		if p.Held || all {
			shown, names = append(shown, p), append(names, p.Extension+" "+p.Tool)
		}
	}
	text := pinsText(shown)
	if text == "" {
		text = fmt.Sprintf("nothing is held back, of %s", console.Plural(len(list.Pins), "pinned tool"))
	}
	return c.Print(console.Document{Kind: "pins", Value: shown, Names: names, Text: text})
}

func pinsText(list []exthost.Pin) string {
	var lines []string
	for _, p := range list {
		line := fmt.Sprintf("%s %s: pinned %s", p.Extension, p.Tool, p.Since.Local().Format("2006-01-02 15:04"))
		if p.ApprovedBy != "" {
			line += ", approved by " + p.ApprovedBy
		}
		if p.Held {
			line += ", held back since " + p.HeldSince.Local().Format("2006-01-02 15:04")
		}
		lines = append(lines, console.Safe(line))
		for diff := range strings.Lines(p.Diff) {
			lines = append(lines, "  "+console.Safe(strings.TrimSuffix(diff, "\n")))
		}
		if p.Held {
			lines = append(lines, console.Safe("  next: exthost policy pins approve "+p.Extension+" "+p.Tool))
		}
	}
	return strings.Join(lines, "\n")
}
