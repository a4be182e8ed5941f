package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
)

// Expected lists the probes that are expected to fail, as read from a file.
type Expected struct {
	path    string
	reasons map[string]string // by probe
}

// ParseExpected parses a file with one probe name per line, each with a reason after #.
// path is used in errors only.
func ParseExpected(path, list string) (*Expected, error) {
	e := &Expected{path: path, reasons: make(map[string]string)}
	for i, line := range strings.Split(list, "\n") {
		name, reason, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if names := Probes(); !slices.Contains(names, name) {
			hint := ""
			if near := text.Nearest(name, names); near != "" {
				hint = fmt.Sprintf(", did you mean %q?", near)
			}
			return nil, fmt.Errorf("%s:%d: there is no probe %q%s", path, i+1, name, hint)
		}
		e.reasons[name] = strings.TrimSpace(reason)
	}
	return e, nil
}

// apply turns an expected failure into Known, and an unexpected pass into Fail, so that the
// file stays accurate.
func (e *Expected) apply(r *Result) {
	if e == nil {
		return
	}
	reason, expected := e.reasons[r.Probe]
	switch {
	case !expected || r.Outcome == Skip:
	case r.Outcome == Fail:
		r.Outcome = Known
		if reason != "" {
			r.Detail = reason + "\n" + r.Detail
		}
	default:
		r.Outcome, r.Detail = Fail, fmt.Sprintf("it passes now; remove %s from %s", r.Probe, e.path)
	}
}
