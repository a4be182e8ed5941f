package dev

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/rawjson"
)

// showLog shows the lines that extensions write to stderr and, unless stderrOnly, the
// warnings of the host that builds does not show already.
func showLog(ctx context.Context, h *exthost.Host, s *screen, stderrOnly bool) {
	for r := range h.Admin().Logs(ctx, exthost.LogFilter{Level: slog.LevelDebug - 4, Follow: true}) {
		stderr := string(rawjson.Get(r.Attrs, "stream")) == `"stderr"`
		reported := rawjson.Get(r.Attrs, "code") != nil || strings.HasPrefix(r.Message, "not reloaded")
		if !stderr && (stderrOnly || r.Level < slog.LevelWarn || reported) {
			continue
		}
		c, mark := console.Dim, "│"
		switch {
		case r.Level >= slog.LevelError:
			c = console.Red
		case r.Level >= slog.LevelWarn && !stderr:
			c, mark = console.Yellow, "!"
		}
		text := r.Message
		for key, value := range rawjson.Members(r.Attrs) {
			if !stderr {
				text += fmt.Sprintf(" %s=%s", key, value)
			}
		}
		s.say("%s %s", s.paint(c, r.Extension+" "+mark), console.Safe(text))
	}
}
