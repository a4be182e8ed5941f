package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Tap returns exthost tap, which shows the messages between the running host and its extensions.
func Tap(c *console.Console) *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use:   "tap [ID]",
		Short: "Show the messages between host and extensions as they pass",
		Long: "Show every message between the host of this directory and its extensions, or one\n" +
			"of them, a line each: > marks messages of the host, < those of the extension. Secrets that\n" +
			"the extension was given are masked. For an extension that runs a command for each call, the\n" +
			"command and its output are shown. Ctrl-C ends it.",
		Example:           "  exthost tap notes\n  exthost tap -o json | jq -r .text",
		Args:              console.AtMostOne("the id of one extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.JSONOnly(cmd); err != nil {
				return err
			}
			columns := console.Width(c.Out)
			if whole {
				columns = 0
			}
			return tap(cmd.Context(), c, args, columns)
		},
	}
	cmd.Flags().BoolVar(&whole, "whole", false, "do not cut lines to the width of the terminal")
	return cmd
}

func tap(ctx context.Context, c *console.Console, ids []string, columns int) error {
	r, err := hosts.Find(ctx)
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, id := range ids {
		if _, err := r.Worker(ctx, id); err != nil {
			return err
		}
		query.Set("extension", id)
	}
	return r.Follow(ctx, "/api/v1/tap?"+query.Encode(), func(data []byte) error {
		var f exthost.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("a frame that cannot be read: %w", err)
		}
		if f.Lost > 0 {
			c.Warn("%s lost, because this command read them too slowly", console.Count(f.Lost, "frame"))
		}
		line := console.SafeJSON(data)
		if c.Output == "table" {
			line = frameLine(&f, len(ids) == 0, columns, c.ColoursOn(c.Out))
		}
		_, err := fmt.Fprintln(c.Out, line)
		return err
	})
}

// frameLine renders a frame for a person, cut to columns; 0 is no limit.
func frameLine(f *exthost.Frame, named bool, columns int, colours bool) string {
	var b strings.Builder
	b.WriteString(f.Time.Local().Format("15:04:05.000 "))
	if named {
		b.WriteString(f.Extension + " ")
	}
	way, colour := "<", console.Green
	if f.Sent {
		way, colour = ">", console.Cyan
	}
	text := console.Safe(f.Text)
	if f.Cut > 0 {
		text += fmt.Sprintf("… and %s bytes", console.Thousands(f.Cut))
	}
	room := 0
	if columns > 0 {
		room = max(columns-b.Len()-2, console.LeastRoom)
	}
	if !colours {
		return b.String() + way + " " + console.Cut(text, room)
	}
	return console.Dim.Paint(b.String()) + colour.Paint(way) + " " + console.Cut(text, room)
}
