package check

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// Outcome is the result of a probe.
type Outcome string

// The outcomes.
const (
	Pass  Outcome = "ok"
	Fail  Outcome = "fail"
	Hint  Outcome = "hint"  // correct, but could be better
	Skip  Outcome = "skip"  // not tested; Detail says why
	Known Outcome = "known" // failed as expected
)

// Result is the result of one probe of one extension.
type Result struct {
	Extension string            `json:"extension"`
	Probe     string            `json:"probe"` // stable, kebab-case
	About     string            `json:"about"` // the property that the probe checks
	Outcome   Outcome           `json:"outcome"`
	Detail    string            `json:"detail,omitempty"` // for people; several lines
	Took      protocol.Duration `json:"took_ms"`
}

// outcomeError is the error of a probe whose outcome is not a failure. With Pass it adds a
// detail.
type outcomeError struct {
	outcome Outcome
	text    string
}

func (v *outcomeError) Error() string { return v.text }

func skipf(format string, args ...any) error {
	return &outcomeError{Skip, fmt.Sprintf(format, args...)}
}
func hintf(format string, args ...any) error {
	return &outcomeError{Hint, fmt.Sprintf(format, args...)}
}
func passf(format string, args ...any) error {
	return &outcomeError{Pass, fmt.Sprintf(format, args...)}
}

func outcomeOf(err error) (Outcome, string) {
	if err == nil {
		return Pass, ""
	}
	if v, ok := errors.AsType[*outcomeError](err); ok {
		return v.outcome, v.text
	}
	return Fail, err.Error()
}

// issues returns an error with one line per issue, nil when there is none.
func issues(outcome Outcome, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return &outcomeError{outcome, strings.Join(lines, "\n")}
}

// verdict returns an error for the failures or, without failures, for the hints.
func verdict(failures, hints []string) error {
	return cmp.Or(issues(Fail, failures), issues(Hint, hints))
}
