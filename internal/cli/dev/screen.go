package dev

import (
	"fmt"
	"io"
	"sync"

	"github.com/exthost/exthost/internal/cli/console"
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
