package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
)

// Report collects the diagnostics of files that are read together.
type Report struct {
	Code        string // code of diagnostics from [Report.Add] and [Report.Warn]
	Diagnostics []protocol.Diagnostic
}

// Add reports an error at pos. hint is the next step, or "".
func (r *Report) Add(pos Pos, hint, format string, args ...any) {
	r.Diagnose(protocol.LevelError, r.Code, pos, hint, format, args...)
}

// Warn reports a problem with a value that is used anyway.
func (r *Report) Warn(pos Pos, hint, format string, args ...any) {
	r.Diagnose(protocol.LevelWarn, r.Code, pos, hint, format, args...)
}

// Diagnose reports with any level and code.
func (r *Report) Diagnose(level protocol.Level, code string, pos Pos, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if pos.Source != "" {
		message = pos.Source + ": " + message
	}
	r.Diagnostics = append(r.Diagnostics, protocol.Diagnostic{
		Level:   level,
		Code:    code,
		Path:    pos.File,
		Line:    pos.Line,
		Column:  pos.Column,
		Message: message,
		Hint:    hint,
	})
}

// Failed reports whether an error was added.
func (r *Report) Failed() bool { return Failed(r.Diagnostics) }

// Failed reports whether one of the diagnostics is an error.
func Failed(diags []protocol.Diagnostic) bool {
	return slices.ContainsFunc(diags, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError })
}

// Sort orders the diagnostics by file and position. Those without a file come last.
func (r *Report) Sort(files []string) {
	rank := func(d protocol.Diagnostic) int {
		if i := slices.Index(files, d.Path); i >= 0 {
			return i
		}
		return len(files)
	}
	slices.SortStableFunc(r.Diagnostics, func(a, b protocol.Diagnostic) int {
		return cmp.Or(rank(a)-rank(b), a.Line-b.Line, a.Column-b.Column)
	})
}

// DidYouMean returns a hint with the candidate closest to word, or "".
func DidYouMean(word string, candidates []string) string {
	if c := nearest(word, candidates); c != "" {
		return "did you mean " + quote(c) + "?"
	}
	return ""
}

// nearest returns the candidate that word most likely means, "" if none is similar.
func nearest(word string, candidates []string) string {
	if word == "command" && slices.Contains(candidates, "cmd") { // as the key is called elsewhere
		return "cmd"
	}
	return text.Nearest(word, candidates)
}

// Choose is [DidYouMean], falling back to the list of all candidates.
func Choose(word string, candidates []string) string {
	if hint := DidYouMean(word, candidates); hint != "" {
		return hint
	}
	return "one of " + strings.Join(candidates, ", ")
}

func quote(s string) string { return strconv.Quote(s) }
