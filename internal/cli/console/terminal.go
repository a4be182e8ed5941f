package console

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Colour is the parameter of an ANSI SGR sequence.
type Colour string

// The colours in use.
const (
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
)

// Paint colours s unconditionally.
func (c Colour) Paint(s string) string { return "\x1b[" + string(c) + "m" + s + "\x1b[0m" }

// Paint colours s if stderr shows colours.
func (c *Console) Paint(colour Colour, s string) string {
	if !c.ColoursOn(c.Err) {
		return s
	}
	return colour.Paint(s)
}

// PaintOut colours s if stdout shows colours.
func (c *Console) PaintOut(colour Colour, s string) string {
	if !c.ColoursOn(c.Out) {
		return s
	}
	return colour.Paint(s)
}

// ColoursOn reports whether w shows colours: --color decides, then NO_COLOR and CLICOLOR_FORCE, then whether w is a
// terminal.
func (c *Console) ColoursOn(w io.Writer) bool {
	switch {
	case c.Color == "always":
		return true
	case c.Color == "never" || os.Getenv("NO_COLOR") != "":
		return false
	case os.Getenv("CLICOLOR_FORCE") != "":
		return true
	}
	return IsTerminal(w) && os.Getenv("TERM") != "dumb"
}

// IsTerminal reports whether w is a file that is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// hanging wraps lines written to a terminal as [Hang] does. Each Write must contain whole lines.
type hanging struct {
	w     io.Writer
	width func(w any) int
}

func (h hanging) Write(p []byte) (int, error) {
	width := h.width(h.w)
	if width == 0 {
		return h.w.Write(p)
	}
	var b strings.Builder
	for line := range strings.Lines(string(p)) {
		b.WriteString(strings.Join(Hang(strings.TrimSuffix(line, "\n"), width), "\n") + "\n")
	}
	if _, err := io.WriteString(h.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Width returns the number of columns of w; 0, no limit, if w is not a terminal.
func Width(w any) int {
	columns, _ := size(w)
	return columns
}

// Height returns the number of lines of w; 0, no limit, if w is not a terminal.
func Height(w any) int {
	_, lines := size(w)
	return lines
}

func size(w any) (columns, lines int) {
	if f, ok := w.(*os.File); ok {
		if columns, lines, err := term.GetSize(int(f.Fd())); err == nil {
			return columns, lines
		}
	}
	return 0, 0
}
