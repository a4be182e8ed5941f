package connect

import (
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/text/redact"
)

const (
	contextLines = 3   // unchanged lines around a change
	longestLine  = 400 // longest line that is shown whole, in bytes
)

// diff is the change of a file's lines, as one contiguous block.
type diff struct {
	line            int // of the first changed line, 1-based
	above, below    []string
	removed, added  []string
	cutLeft, cutEnd bool // text was cut at the left or at the end: removed and added hold only the parts that differ
}

func difference(before, after []byte) diff {
	old, now := lines(before), lines(after)
	head, tail := shared(len(old), len(now), func(i, j int) bool { return old[i] == now[j] })
	d := diff{
		line:    head + 1,
		above:   old[max(0, head-contextLines):head],
		removed: old[head : len(old)-tail],
		added:   now[head : len(now)-tail],
	}
	d.below = old[len(old)-tail:][:min(tail, contextLines)]
	d.shorten()
	return d
}

// lines splits a text into lines without their line ends.
func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], "\r")
	}
	return all
}

// shared returns the lengths of the common prefix and the common suffix of two lists of the lengths n and m.
func shared(n, m int, equal func(i, j int) bool) (head, tail int) {
	for head < min(n, m) && equal(head, head) {
		head++
	}
	for tail < min(n, m)-head && equal(n-1-tail, m-1-tail) {
		tail++
	}
	return head, tail
}

// shorten reduces a long changed line, such as a file that is all on one line, to the part that differs.
func (d *diff) shorten() {
	if len(d.removed) > 1 || len(d.added) > 1 ||
		len(strings.Join(append(d.removed[:len(d.removed):len(d.removed)], d.added...), "")) < longestLine {
		return
	}
	old, now := strings.Join(d.removed, ""), strings.Join(d.added, "")
	head, tail := shared(len(old), len(now), func(i, j int) bool { return old[i] == now[j] })
	d.cutLeft, d.cutEnd = head > 0, tail > 0
	d.removed, d.added = part(old[head:len(old)-tail]), part(now[head:len(now)-tail])
}

func part(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// text returns the change in the form of diff -u. Values that look like secrets are masked.
func (d diff) text() string {
	return d.render(func(_ console.Colour, line string) string { return line })
}

// painted returns text for stderr, in colour if stderr shows colours.
func (d diff) painted(c *console.Console) string {
	return d.render(func(colour console.Colour, line string) string {
		if line = console.Safe(line); colour == "" {
			return line
		}
		return c.Paint(colour, line)
	})
}

func (d diff) render(paint func(colour console.Colour, line string) string) string {
	var b strings.Builder
	put := func(colour console.Colour, mark string, lines []string) {
		for _, line := range lines {
			b.WriteString(paint(colour, mark+strings.ReplaceAll(line, "\t", "    ")) + "\n")
		}
	}
	around := func(lines []string) {
		for _, line := range masked(lines) {
			put("", "  ", []string{console.Cut(line, longestLine)})
		}
	}
	changed := func(lines []string) []string {
		// Also mask changed lines: a line that only got a comma, or a whole file on one line, may hold other secrets.
		lines = masked(lines)
		if !d.cutLeft && !d.cutEnd || lines == nil {
			return lines
		}
		return []string{"…" + lines[0] + "…"}
	}
	fmt.Fprintln(&b, paint(console.Dim, fmt.Sprintf("@@ line %d @@", d.line)))
	around(d.above)
	put(console.Red, "- ", changed(d.removed))
	put(console.Green, "+ ", changed(d.added))
	around(d.below)
	return b.String()
}

// masked returns the lines with values that look like secrets masked.
func masked(lines []string) (safe []string) {
	for _, line := range lines {
		text, _ := redact.Default().Text(line)
		safe = append(safe, text)
	}
	return safe
}
