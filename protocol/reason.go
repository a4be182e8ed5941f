package protocol

import "errors"

// Reason returns the text of err without extension and tool, for places that name them already.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// NextOf returns the Next of the *Error in err, or "".
func NextOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Next
	}
	return ""
}

// EvidenceOf returns the Evidence of the *Error in err, or nil.
func EvidenceOf(err error) *Evidence {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Evidence
	}
	return nil
}

// LastWords returns the output lines that best explain the end of a process, or "". Show them to the operator
// only: they are unfiltered output.
func LastWords(err error) string {
	if e := EvidenceOf(err); e != nil {
		return e.Complaint()
	}
	return ""
}

// ProcessEnded reports whether err means that the process of an instance is gone or about to be: the host also
// replaces an instance whose capacity is used up by abandoned calls.
func ProcessEnded(err error) bool {
	switch KindOf(err) {
	case ChildExited, LineTooLong, StdoutClosed, WriteStalled, Overloaded, NodeLost:
		return true
	}
	return false
}
