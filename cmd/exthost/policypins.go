package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/status"
)

func (a *app) policyPinsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "Show the tools that have changed since they were pinned, and approve that",
		Long: "Show the tools that a policy of builtin: pin holds back, because they do not say of\n" +
			"themselves what they said when they were first seen, with the difference; --all shows all\n" +
			"that are pinned.",
		Example: "  exthost policy pins\n  exthost policy pins approve notes add",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.pins(cmd.Context(), all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that have not changed")
	cmd.AddCommand(&cobra.Command{
		Use:   "approve ID [TOOL]",
		Short: "Let a changed tool of an extension pass, or all of them, and pin what they say now",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usagef("exthost policy pins", "%s needs the id of an extension, and may name one of its tools", c.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.running(cmd.Context())
			if err != nil {
				return err
			}
			path := "/api/v1/pins"
			for _, arg := range args {
				path += "/" + url.PathEscape(arg)
			}
			if err := r.do(cmd.Context(), http.MethodPost, path+"/approve", nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.err, "approved %s\n", safe(strings.Join(args, " ")))
			return err
		},
	})
	return cmd
}

func (a *app) pins(ctx context.Context, all bool) error {
	r, cfg, err := a.reach(ctx)
	var list struct{ Pins []status.Pin }
	if r != nil {
		err = r.get(ctx, "/api/v1/pins", &list)
	} else if err == nil {
		var h *exthost.Host
		if h, err = a.openWith(ctx, cfg, exthost.Options{Start: none, Mode: exthost.Mode{Inspect: true}}); err == nil {
			list.Pins = h.Admin().Pins()
			err = h.Close()
		}
	}
	if err != nil {
		return err
	}
	shown, names := []status.Pin{}, []string{}
	for _, p := range list.Pins {
		if p.Held || all {
			shown, names = append(shown, p), append(names, p.Extension+" "+p.Tool)
		}
	}
	text := pinsText(shown)
	if text == "" {
		text = fmt.Sprintf("nothing is held back, of %s", plural(list.Pins, "pinned tool"))
	}
	return a.print(document{Kind: "pins", Value: shown, Names: names, Text: text})
}

func pinsText(list []status.Pin) string {
	var lines []string
	for _, p := range list {
		line := fmt.Sprintf("%s %s: pinned %s", p.Extension, p.Tool, p.Since.Local().Format("2006-01-02 15:04"))
		if p.ApprovedBy != "" {
			line += ", approved by " + p.ApprovedBy
		}
		if p.Held {
			line += ", held back since " + p.HeldSince.Local().Format("2006-01-02 15:04")
		}
		lines = append(lines, safe(line))
		for diff := range strings.Lines(p.Diff) {
			lines = append(lines, "  "+safe(strings.TrimSuffix(diff, "\n")))
		}
		if p.Held {
			lines = append(lines, safe("  next: exthost policy pins approve "+p.Extension+" "+p.Tool))
		}
	}
	return strings.Join(lines, "\n")
}
