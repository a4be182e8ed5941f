package console

import (
	"fmt"
	"strings"
)

// Grid aligns rows in columns, made safe for a terminal. A line that is longer than
// width is cut or, with fold, continued below; width 0 is no limit.
func Grid(rows [][]string, width int, fold bool) []string {
	var widths []int
	for i, row := range rows {
		rows[i] = make([]string, len(row))
		for j, cell := range row {
			rows[i][j] = Safe(cell)
			if j == len(widths) {
				widths = append(widths, 0)
			}
			if j < len(row)-1 { // the last cell has no right edge
				widths[j] = max(widths[j], len([]rune(rows[i][j])))
			}
		}
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, line(row, widths, width, fold)...)
	}
	return lines
}

// LeastRoom is the width of the last cell on a terminal that is too narrow.
const LeastRoom = 10

func line(row []string, widths []int, width int, fold bool) []string {
	if len(row) == 0 {
		return []string{""}
	}
	var b strings.Builder
	indent := 0
	for j, cell := range row[:len(row)-1] {
		fmt.Fprintf(&b, "%-*s  ", widths[j], cell)
		indent += widths[j] + 2
	}
	last, room := row[len(row)-1], 0
	if width > 0 {
		room = max(width-indent, LeastRoom)
	}
	if !fold {
		return []string{strings.TrimRight(b.String()+Cut(last, room), " ")}
	}
	lines := Wrap(last, room)
	for i := range lines {
		if i == 0 {
			lines[i] = strings.TrimRight(b.String()+lines[i], " ")
		} else {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	return lines
}
