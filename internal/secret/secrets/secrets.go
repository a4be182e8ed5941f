// Package secrets reads references to stored secrets, secret://NAME, in texts, and checks names
// and values. Where the values are stored is not its matter.
package secrets

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Scheme begins a reference. A name follows.
const Scheme = "secret://"

// The sizes of what is stored.
const (
	maxName  = 128      // of a name, in bytes
	MaxValue = 64 << 10 // of a value, in bytes: what every system takes as one variable
)

// nameForm is the form of a name. It is a file's name and a word of a command line as it is: no
// slash, and neither a dot nor a hyphen at the beginning.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

// CheckName returns why a text is no name of a secret; nil when it is one.
func CheckName(name string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name of a secret: it has letters, digits, _, . and -, begins and ends with none "+
			"of the last two, and has at most %d characters", cut(name), maxName)
	}
	return nil
}

// cut shortens a text that is no name.
func cut(name string) string {
	if len(name) > maxName {
		return name[:maxName] + "…"
	}
	return name
}

// Error is the error of a secret that cannot be had.
type Error struct {
	Message string // why, with the name of the secret
	Next    string // the next step; "": there is none
	Missing bool   // it is not stored, and a secret of that name can be
}

// Error joins the two.
func (e *Error) Error() string {
	if e.Next == "" {
		return e.Message
	}
	return e.Message + "; " + e.Next
}

// Refers reports whether a text has a reference, or what looks like one.
func Refers(text string) bool {
	before, _, _ := next(text)
	return before != text
}

// Names returns the names that a text refers to, in its order. The error is that of a reference
// without a proper name.
func Names(text string) (names []string, err error) {
	_, err = Replace(text, func(name string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names, err
}

// Replace returns text with the result of value in place of each reference. Values are not
// searched for references.
func Replace(text string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for text != "" {
		before, name, after := next(text)
		b.WriteString(before)
		if before == text {
			break
		}
		if err := CheckName(name); err != nil {
			return "", err
		}
		if strings.HasPrefix(after, "/") {
			return "", fmt.Errorf("%s%s/… is no reference to a secret: its name has no slash", Scheme, name)
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		text = after
	}
	return b.String(), nil
}

// next cuts text at its first reference. Without one before is text.
func next(text string) (before, name, after string) {
	for from := 0; ; {
		i := strings.Index(text[from:], Scheme)
		if i < 0 {
			return text, "", ""
		}
		at := from + i
		if from = at + len(Scheme); at > 0 && ofScheme(text[at-1]) { // topsecret:// is another scheme
			continue
		}
		end := from
		for end < len(text) && ofName(text[end]) {
			end++
		}
		return text[:at], text[from:end], text[end:]
	}
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
func ofName(c byte) bool   { return alphanumeric(c) || c == '_' || c == '.' || c == '-' }
func ofScheme(c byte) bool { return alphanumeric(c) || c == '+' || c == '.' || c == '-' }

// Value returns the secret that a program has printed or a file has: without the end of its last
// line. The error is for what cannot be a variable of an environment, and never quotes it.
func Value(data []byte) (string, error) {
	if rest, ok := bytes.CutSuffix(data, []byte("\n")); ok {
		data = bytes.TrimSuffix(rest, []byte("\r"))
	}
	switch {
	case len(data) == 0:
		return "", fmt.Errorf("the value is empty")
	case len(data) > MaxValue:
		return "", fmt.Errorf("the value has more than %d bytes", MaxValue)
	case bytes.IndexByte(data, 0) >= 0:
		return "", fmt.Errorf("the value has a NUL, which no variable can hold")
	}
	return string(data), nil
}
