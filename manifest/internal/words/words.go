// Package words judges single words of a manifest: addresses and names of programs.
package words

import (
	"fmt"
	"net/url"
	"strings"
)

// BadURL returns the error in an http url, "" for none. A url with ${VAR} cannot be
// checked before the variable is known.
func BadURL(raw string) string {
	if strings.Contains(raw, "${") {
		return ""
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return "a url is needed, such as https://example.com/mcp"
	case err != nil:
		return fmt.Sprintf("%q is not a url", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("%q is not an http or https url", raw)
	case u.Hostname() == "":
		return fmt.Sprintf("%q names no host", raw)
	case u.Fragment != "":
		return fmt.Sprintf("%q has a fragment, which no server sees", raw)
	}
	return ""
}

// BadProgram returns why a word cannot name a program, "" if it can.
func BadProgram(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "it is empty"
	case strings.HasPrefix(name, "-"):
		return "a program's name does not begin with -"
	case strings.ContainsRune(name, 0):
		return "it has a NUL character"
	case strings.Contains(name, "${"):
		return "variables are for arguments, env and headers: a program has a fixed name"
	}
	return ""
}
