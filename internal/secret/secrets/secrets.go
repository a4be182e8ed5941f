// Package secrets parses references to stored secrets (secret://NAME), and validates their names and values.
package secrets

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Scheme starts a reference; the secret's name follows.
const Scheme = "secret://"

// Size limits in bytes.
const (
	maxName  = 128      // name
	MaxValue = 64 << 10 // value; fits an environment variable on every system
)

// nameForm matches a name. Names are safe as file names and command line arguments: no slash, and no dot or
// hyphen at the start.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

// CheckName returns why name is invalid, or nil.
func CheckName(name string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name of a secret: it has letters, digits, _, . and -, begins and ends with none "+
			"of the last two, and has at most %d characters", cut(name), maxName)
	}
	return nil
}

// cut shortens an invalid name.
func cut(name string) string {
	if len(name) > maxName {
		return name[:maxName] + "…"
	}
	return name
}

// Error is returned when a secret is not available.
type Error struct {
	Message string // reason, with the secret's name
	Next    string // next step; may be ""
	Missing bool   // the secret is not stored, but could be
}

func (e *Error) Error() string {
	if e.Next == "" {
		return e.Message
	}
	return e.Message + "; " + e.Next
}

// Refers reports whether text contains a reference, valid or not.
func Refers(text string) bool {
	before, _, _ := next(text)
	return before != text
}

// Names returns the secrets that text refers to, in order. An invalid name is an error.
func Names(text string) (names []string, err error) {
	_, err = Replace(text, func(name string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names, err
}

// Replace replaces each reference in text by the result of value. It does not search values for references.
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

// next splits text at its first reference. Without one, before is text.
func next(text string) (before, name, after string) {
	for from := 0; ; {
		i := strings.Index(text[from:], Scheme)
		if i < 0 {
			return text, "", ""
		}
		at := from + i
		if from = at + len(Scheme); at > 0 && ofScheme(text[at-1]) { // another scheme, such as topsecret://
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

// Value returns a secret from a program's output or a file, without the final line break. Values that no
// environment variable can hold are an error, which never quotes the value.
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
