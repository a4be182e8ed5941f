package console

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/exthost/exthost/protocol"
)

// Safe makes third-party text harmless on a terminal: control, bidi and other invisible characters become escapes, and
// the text stays on its line.
func Safe(s string) string { return escape(s, "", longEscape) }

// SafeText is [Safe] for text of several lines.
func SafeText(s string) string { return escape(s, "\n\t", longEscape) }

func longEscape(r rune) string { return fmt.Sprintf("\\U%08x", r) }

// escape escapes invisible characters except those in keep. long returns the escape of a character beyond \uffff.
func escape(s, keep string, long func(r rune) string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Invisible(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(long(r))
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// Invisible reports whether a terminal acts on r instead of showing it.
func Invisible(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Cut shortens s to at most n characters, between words unless the last word is long; n < 1 is no limit.
func Cut(s string, n int) string {
	r := []rune(s)
	if n < 1 || len(r) <= n {
		return s
	}
	end := n - 1
	for i := end; i > max(n/2, end-longWord); i-- {
		if r[i] == ' ' {
			end = i
			break
		}
	}
	return strings.TrimRight(string(r[:end]), " ") + "…"
}

const longWord = 20

// Hang wraps a line like [Wrap] and indents its continuation.
func Hang(line string, n int) []string {
	if n < 1 || Columns(line) <= n {
		return []string{line}
	}
	const hang = "    "
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	room := n - len(indent)
	parts := wrap(line, room, max(room-len(hang), LeastRoom))
	for i := 1; i < len(parts); i++ {
		parts[i] = hang + indent + parts[i]
	}
	parts[0] = indent + parts[0]
	return parts
}

// Columns returns the number of characters of s, colours not counted.
func Columns(s string) int { return utf8.RuneCountInString(colours.ReplaceAllString(s, "")) }

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Wrap breaks s between words into lines of at most n characters, colours not counted; only a longer word makes a
// longer line. n < 1 is no limit.
func Wrap(s string, n int) []string {
	if n < 1 {
		return []string{s}
	}
	return wrap(s, n, n)
}

// wrap is [Wrap] with another length for the first line.
func wrap(s string, first, others int) (lines []string) {
	n := first
	line, length := "", 0
	for _, word := range strings.Fields(s) {
		l := Columns(word)
		if length > 0 && length+1+l > n {
			lines = append(lines, line)
			line, length, n = "", 0, others
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

// Nearby shortens the path of a diagnostic as [NearbyPath] does.
func Nearby(d protocol.Diagnostic) protocol.Diagnostic {
	if d.Path != "" {
		d.Path = NearbyPath(d.Path)
	}
	return d
}

// NearbyPath makes an absolute path below the working directory relative to it.
func NearbyPath(path string) string {
	wd, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// Tilde shortens a path below the home directory to ~/…, and leaves others as they are.
func Tilde(path string) string {
	home, err := os.UserHomeDir()
	if rel, relErr := filepath.Rel(home, path); err == nil && relErr == nil && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return path
}

// NearbyText makes paths below the working directory in a text relative to it.
func NearbyText(text string) string {
	wd, err := os.Getwd()
	if err != nil || filepath.Dir(wd) == wd { // "//" is that of a URL
		return text
	}
	return strings.ReplaceAll(text, wd+string(filepath.Separator), "")
}

// Plural returns a number with its noun: "1 tool", "2 tools".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Count is [Plural] with thousands separators.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}

// Thousands writes 12345 as 12,345.
func Thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}

// Span writes a duration, rounded to what matters at its size.
func Span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond / 10).String()
	case d < time.Minute:
		return d.Round(time.Second / 10).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Bytes writes an amount of memory; "-" if it is unknown.
func Bytes(n int64) string {
	if n <= 0 {
		return "-"
	}
	if n < 1<<30 {
		return fmt.Sprintf("%.3g MiB", math.Max(0.01, float64(n)/(1<<20)))
	}
	return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30))
}

// Stamp writes the local time of day, with the date unless that is today.
func Stamp(t time.Time) string {
	layout := "15:04:05.000"
	if t = t.Local(); t.Format(time.DateOnly) != time.Now().Format(time.DateOnly) {
		layout = "2006-01-02 " + layout
	}
	return t.Format(layout)
}
