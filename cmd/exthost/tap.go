package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
)

func (a *app) tapCommand() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use:   "tap [ID]",
		Short: "Show what passes between the running exthost and its extensions, as it passes",
		Long: "Show every message between the exthost that serves this directory and its extensions, or\n" +
			"one of them, a line each: > what the host sends, < what the extension does. The secrets it\n" +
			"was given are masked. An extension that runs a command for each call has no messages: there\n" +
			"it is the command and what it printed. Ctrl-C ends it.",
		Example: "  exthost tap notes\n  exthost tap -o json | jq -r .text",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return one("the id of one extension")(c, args)
		},
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.jsonOnly(cmd); err != nil {
				return err
			}
			return a.tap(cmd.Context(), args, whole)
		},
	}
	cmd.Flags().BoolVar(&whole, "whole", false, "do not cut lines to the width of the terminal")
	return cmd
}

func (a *app) tap(ctx context.Context, ids []string, whole bool) error {
	r, err := a.running(ctx)
	if err != nil {
		return err
	}
	query, columns := url.Values{}, width(a.out)
	if whole {
		columns = 0
	}
	for _, id := range ids {
		s, err := r.status(ctx)
		if err != nil {
			return err
		}
		if _, err := findWorker(s, id); err != nil {
			return err
		}
		query.Set("extension", id)
	}
	return r.follow(ctx, "/api/v1/tap?"+query.Encode(), func(data []byte) error {
		var f exthost.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("a frame that cannot be read: %w", err)
		}
		if f.Lost > 0 {
			fmt.Fprintf(a.err, "%s: %s lost, this was too slow for them\n", a.paint(yellow, "warn"), count(f.Lost, "frame"))
		}
		line := safeJSON(data)
		if a.flags.output == "table" {
			line = a.frameLine(&f, len(ids) == 0, columns)
		}
		_, err := fmt.Fprintln(a.out, line)
		return err
	})
}

// frameLine is a frame for a person, in no more than so many columns.
func (a *app) frameLine(f *exthost.Frame, named bool, columns int) string {
	var b strings.Builder
	b.WriteString(f.Time.Local().Format("15:04:05.000 "))
	if named {
		b.WriteString(f.Extension + " ")
	}
	way, c := "<", green
	if f.Sent {
		way, c = ">", cyan
	}
	text := safe(f.Text)
	if f.Cut > 0 {
		text += fmt.Sprintf("… and %s bytes", thousands(f.Cut))
	}
	room := 0
	if columns > 0 {
		room = max(columns-b.Len()-2, leastRoom)
	}
	if !a.coloursOn(a.out) {
		return b.String() + way + " " + cut(text, room)
	}
	return paintWith(dim, b.String()) + paintWith(c, way) + " " + cut(text, room)
}
