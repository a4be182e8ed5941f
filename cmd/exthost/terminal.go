package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// colour is an ANSI attribute.
type colour string

const (
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

// paint colours s where stderr shows colours.
func (a *app) paint(c colour, s string) string {
	if !a.coloursOn(a.err) {
		return s
	}
	return paintWith(c, s)
}

func paintWith(c colour, s string) string { return "\x1b[" + string(c) + "m" + s + "\x1b[0m" }

// coloursOn follows --color, then NO_COLOR and CLICOLOR_FORCE, then the terminal.
func (a *app) coloursOn(w io.Writer) bool {
	switch {
	case a.flags.color == "always":
		return true
	case a.flags.color == "never" || os.Getenv("NO_COLOR") != "":
		return false
	case os.Getenv("CLICOLOR_FORCE") != "":
		return true
	}
	return isTerminal(w) && os.Getenv("TERM") != "dumb"
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is how many columns w has; 0 when it is no terminal and has no end.
func width(w any) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return 0
}

// safe makes third-party text harmless on a terminal: control, bidi and other
// invisible characters are shown as escapes, and it stays on its line.
func safe(s string) string { return escape(s, "") }

// safeText is safe for text of several lines.
func safeText(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !invisible(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

func invisible(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// cut shortens s to n characters; n < 1 does not.
func cut(s string, n int) string {
	r := []rune(s)
	if n < 1 || len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// wrap breaks s between words into lines of at most n characters, as far as its
// words allow; n < 1 does not.
func wrap(s string, n int) []string {
	if n < 1 {
		return []string{s}
	}
	var lines []string
	line, length := "", 0
	for _, word := range strings.Fields(s) {
		l := len([]rune(word))
		if length > 0 && length+1+l > n {
			lines = append(lines, line)
			line, length = "", 0
		}
		if length > 0 {
			line += " "
			length++
		}
		line += word
		length += l
	}
	return append(lines, line)
}
