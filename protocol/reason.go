package protocol

import "errors"

// Reason returns the text of err without the name of the extension and the tool, for
// places that name them already.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// EvidenceOf returns what the process behind err left, nil when there is nothing.
func EvidenceOf(err error) *Evidence {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Evidence
	}
	return nil
}

// LastWords returns the lines of a process that best explain its end, "" when there are
// none. They are for the operator alone: they may hold whatever the process wrote.
func LastWords(err error) string {
	if e := EvidenceOf(err); e != nil {
		return e.Complaint()
	}
	return ""
}

// ProcessEnded reports whether err means that the process behind an instance is gone or
// about to be: the host replaces one that is overloaded by calls that nobody waits for.
func ProcessEnded(err error) bool {
	switch KindOf(err) {
	case ChildExited, LineTooLong, StdoutClosed, WriteStalled, Overloaded, NodeLost:
		return true
	}
	return false
}
