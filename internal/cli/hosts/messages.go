package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// Tap shows the messages between the running host and its extensions, or those of ids, until ctx ends. If whole is
// false, lines are cut to the width of the terminal.
func Tap(ctx context.Context, c *console.Console, ids []string, whole bool) error {
	columns := console.Width(c.Out)
	if whole {
		columns = 0
	}
	r, err := Find(ctx)
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
		var f status.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("a frame that cannot be read: %w", err)
		}
		if f.Lost > 0 {
			c.Warn("%s lost, because this command read them too slowly", console.Count(f.Lost, "frame"))
		}
		line := console.SafeJSON(data)
		if c.Output == "table" {
			line = FrameLine(&f, len(ids) == 0, columns, c.ColoursOn(c.Out))
		}
		_, err := fmt.Fprintln(c.Out, line)
		return err
	})
}

// FrameLine renders a frame for a person, cut to columns; 0 is no limit.
func FrameLine(f *status.Frame, named bool, columns int, colours bool) string {
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
