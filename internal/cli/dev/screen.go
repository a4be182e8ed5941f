package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/rawjson"
)

// screen prints the lines of a session.
type screen struct {
	out      io.Writer // above the prompt, if there is one
	terminal io.Writer // for its width
	colours  bool

	mu sync.Mutex // held while several lines are printed together
}

func (s *screen) paint(c console.Colour, text string) string {
	if !s.colours {
		return text
	}
	return c.Paint(text)
}

// width is the number of columns; 0 is no limit.
func (s *screen) width() int { return console.Width(s.terminal) }

// say prints lines together.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(format, args...)
}

// print prints one line of several. The caller holds mu.
func (s *screen) print(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

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
