package console

import (
	"slices"
	"strings"
	"unicode"
)

// Layout is the layout of a table. The zero value is for a file: unlimited width, no colours.
type Layout struct {
	Width int                                  // of the terminal; 0: no limit
	Fold  bool                                 // continue a long last cell on the next lines instead of cutting it
	Drop  []string                             // titles of columns to leave out on a narrow terminal, in this order
	Paint func(colour Colour, s string) string // nil: no colours; see [Layout.Colour]
}

// Layout returns the layout of tables on stdout.
func (c *Console) Layout(fold bool, drop ...string) Layout {
	return Layout{Width: Width(c.Out), Fold: fold, Drop: drop, Paint: c.PaintOut}
}

// Colour colours s if the table has colours.
func (l Layout) Colour(colour Colour, s string) string {
	if l.Paint == nil {
		return s
	}
	return l.Paint(colour, s)
}

// The last cell is at least LeastRoom wide; columns are dropped until it has the width enoughRoom. hang is its indent
// when it is printed below its row.
const (
	LeastRoom  = 10
	enoughRoom = 30
	hang       = 4
)

// Grid aligns rows in columns and makes them safe for a terminal. The first row may hold titles, in capitals. Words for
// states are coloured by their meaning.
func (l Layout) Grid(rows [][]string) []string {
	safe := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			safe[i] = append(safe[i], Safe(cell))
		}
	}
	widths := l.dropColumns(safe)
	var lines []string
	for i, row := range safe {
		lines = append(lines, l.lines(row, widths, i == 0 && isTitles(row))...)
	}
	return lines
}

// dropColumns removes columns until the table fits, and returns the widths of the rest.
func (l Layout) dropColumns(rows [][]string) (widths []int) {
	drop := l.Drop
	for {
		var last int
		widths, last = l.measure(rows)
		need := min(last, enoughRoom)
		for _, w := range widths {
			need += w + 2
		}
		if l.Width == 0 || need <= l.Width || len(drop) == 0 {
			return widths
		}
		column, whole := slices.Index(rows[0], drop[0]), len(rows[0])
		drop = drop[1:]
		for i, row := range rows {
			if column >= 0 && len(row) == whole { // a shorter row is a line of its own
				rows[i] = slices.Delete(row, column, column+1)
			}
		}
	}
}

// measure returns the widths of all columns but the last, and the width of the widest last cell. With Fold, a cell
// wider than a third of the terminal does not widen its column.
func (l Layout) measure(rows [][]string) (widths []int, last int) {
	for _, row := range rows {
		for j, cell := range row[:max(len(row)-1, 0)] {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			if w := len([]rune(cell)); !l.Fold || l.Width == 0 || w <= l.Width/3 {
				widths[j] = max(widths[j], w)
			}
		}
		if len(row) > 1 {
			last = max(last, len([]rune(row[len(row)-1])))
		}
	}
	return widths, last
}

func (l Layout) lines(row []string, widths []int, titles bool) []string {
	if len(row) == 0 {
		return []string{""}
	}
	paint := func(cell string) string {
		if titles {
			return l.Colour(Bold, cell)
		}
		word, _, _ := strings.Cut(cell, " ")
		if colour := meanings[strings.TrimSuffix(word, ":")]; colour != "" &&
			(word == cell || strings.HasSuffix(word, ":")) {
			return l.Colour(colour, word) + strings.TrimPrefix(cell, word)
		}
		return cell
	}
	var b strings.Builder
	indent := 0
	for j, cell := range row[:len(row)-1] {
		width := max(widths[j], len([]rune(cell)))
		b.WriteString(paint(cell) + strings.Repeat(" ", width-len([]rune(cell))+2))
		indent += width + 2
	}
	last, room := row[len(row)-1], 0
	if l.Width > 0 {
		room = max(l.Width-indent, LeastRoom)
	}
	parts := []string{Cut(last, room)}
	switch {
	case l.Fold && len(row) > 1 && room < min(enoughRoom, l.Width/2) && len([]rune(last)) > room:
		indent = hang // put it below, where there is room
		parts = append([]string{""}, Wrap(last, max(l.Width-hang, LeastRoom))...)
	case l.Fold:
		parts = Wrap(last, room)
	}
	lines := make([]string, len(parts))
	for i, part := range parts {
		if i == 0 {
			lines[i] = strings.TrimRight(b.String()+paint(part), " ")
		} else {
			lines[i] = strings.Repeat(" ", indent) + paint(part)
		}
	}
	return lines
}

// isTitles reports whether a row holds titles: words in capitals.
func isTitles(row []string) bool {
	return len(row) > 1 && !slices.ContainsFunc(row,
		func(cell string) bool { return strings.ContainsFunc(cell, unicode.IsLower) })
}

// meanings are the colours of words for states and results.
var meanings = map[string]Colour{
	"ready": Green, "ok": Green, "pass": Green, "approved": Green,
	"failed": Red, "fail": Red, "error": Red, "denied": Red, "deny": Red, "open": Red,
	"restarting": Yellow, "spawning": Yellow, "draining": Yellow, "skipped": Yellow, "untrusted": Yellow,
	"skip": Yellow, "hint": Yellow,
	"warn": Yellow, "half_open": Yellow, "ask": Yellow, "known": Yellow,
	"disabled": Dim, "info": Dim,
}
