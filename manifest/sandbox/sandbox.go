// Package sandbox defines the [sandbox] table of a plugin.toml: what an extension may read, write and reach.
// Anything else is denied.
package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/exthost/exthost/internal/text/strict"
)

// Table states what the extension's processes may access; the kernel enforces it. Without it they may access
// whatever the host's user may, unless the operator restricts them.
type Table struct {
	// node, python, uv, go or none: adds what such programs need to read; default: that of the command, if it is node,
	// npx, python, uv or uvx, else the system's programs and libraries
	Profile string `toml:"profile" json:"profile,omitempty"`
	// files and folders to read besides its own folder and state directory: "./data", "~/notes", absolute
	Read []string `toml:"read" json:"read,omitempty"`
	// files and folders to read and write; {state} is its state directory
	Write []string `toml:"write" json:"write,omitempty"`
	// none (default), loopback (an interface of its own, not the host's) or a list of "host:port"
	Net Net `toml:"net" json:"net,omitempty"`
	// start even if the system cannot enforce all of this; default false
	BestEffort bool `toml:"best_effort" json:"best_effort,omitempty"`
}

// The values of Table.Profile in force; "" adds the system's programs and libraries.
const (
	ProfileNode   = "node"
	ProfilePython = "python"
	ProfileUV     = "uv"
	ProfileGo     = "go"
	ProfileNone   = "none" // only its own folder, for programs without libraries
)

var profiles = []string{ProfileNode, ProfilePython, ProfileUV, ProfileGo, ProfileNone}

// Net is the network access of an extension: none, loopback or host:port pairs. Nil is none.
type Net []string

// The words of Net.
const (
	NetNone     = "none"
	NetLoopback = "loopback"
)

// Hosts returns the host:port pairs, nil for a word.
func (n Net) Hosts() []string {
	if len(n) == 1 && (n[0] == NetNone || n[0] == NetLoopback) {
		return nil
	}
	return n
}

// Word returns the word, "" for a list of hosts.
func (n Net) Word() string {
	switch {
	case len(n) == 0:
		return NetNone
	case n.Hosts() == nil:
		return n[0]
	}
	return ""
}

var errNet = errors.New(`want "none", "loopback" or a list such as ["api.github.com:443"]`)

// UnmarshalTOML reads a word or a list of strings.
func (n *Net) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		*n = Net{v}
		return nil
	case []any:
		list := make(Net, 0, len(v))
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return errNet
			}
			list = append(list, s)
		}
		*n = list
		return nil
	}
	return errNet
}

// UnmarshalText reads a word; configurations state lists as arrays.
func (n *Net) UnmarshalText(text []byte) error {
	*n = Net{string(text)}
	return nil
}

// UnmarshalJSON reads a word or an array of strings.
func (n *Net) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v == nil {
		*n = nil
		return nil
	}
	return n.UnmarshalTOML(v)
}

// JSONSchema accepts a word or an array of host:port.
func (Net) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Description: `what it may reach: "none", "loopback" or a list of "host:port"`,
		OneOf: []*jsonschema.Schema{
			{Type: "string", Enum: []any{NetNone, NetLoopback}},
			{Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		},
	}
}

// JSONSchemaExtend adds the allowed words.
func (Table) JSONSchemaExtend(s *jsonschema.Schema) {
	if p, ok := s.Properties.Get("profile"); ok {
		for _, w := range profiles {
			p.Enum = append(p.Enum, w)
		}
	}
}

// Problem is an error in a table.
type Problem struct {
	Field   string // a key, or an element such as read[0]
	Message string
	Hint    string
}

// Validate returns all errors in t.
func (t *Table) Validate() (p []Problem) {
	if t.Profile != "" && !slices.Contains(profiles, t.Profile) {
		p = append(p, Problem{
			"profile",
			fmt.Sprintf("profile is %s, not %q", strings.Join(profiles, ", "), t.Profile),
			strict.DidYouMean(t.Profile, profiles),
		})
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read", t.Read}, {"write", t.Write}} {
		for i, name := range list.paths {
			if message, hint := badPath(name); message != "" {
				p = append(p, Problem{
					strict.Index(list.key, i),
					fmt.Sprintf("%s: %q %s", list.key, name, message),
					hint,
				})
			}
		}
	}
	return append(p, t.Net.problems()...)
}

// badPath returns why a path is not accepted, or "".
func badPath(name string) (message, hint string) {
	rest := strings.TrimPrefix(name, State)
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "names nothing", ""
	case rest != name && rest != "" && rest[0] != '/':
		return "goes on after {state} without a /", ""
	case strings.ContainsAny(rest, "{}*?$"):
		return "has a placeholder or a pattern that is not known",
			"the one placeholder is {state}, at the beginning; ask for the folder instead of a pattern"
	case name[0] == '~' && name != "~" && !strings.HasPrefix(name, "~/"):
		return "names the home directory of somebody else",
			"~ alone is the home directory of the user who runs the host"
	case !path.IsAbs(name) && slices.Contains(strings.Split(name, "/"), ".."):
		return "leaves the extension's folder by ..",
			"nobody who reads it can tell where that leads: state an absolute path, or one that begins with ~/"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "has a .. in it", "state where it leads"
	}
	return "", ""
}

// State stands for the extension's state directory in paths.
const State = "{state}"

func (n Net) problems() (p []Problem) {
	hosts := n.Hosts()
	if len(n) == 1 && !strings.Contains(n[0], ":") && hosts != nil {
		return []Problem{
			{"net", fmt.Sprintf("net is none, loopback or a list of host:port, not %q", n[0]),
				strict.DidYouMean(n[0], []string{NetNone, NetLoopback})},
		}
	}
	for i, h := range hosts {
		if message := badHost(h); message != "" {
			p = append(p, Problem{
				strict.Index("net", i),
				fmt.Sprintf("net: %q %s", h, message),
				`such as "api.example.com:443"`,
			})
		}
	}
	return p
}

// badHost returns why h is not an accepted host:port, or "".
func badHost(h string) string {
	name, port, ok := strings.Cut(h, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case !ok || strings.Contains(port, ":"):
		return "is not a name and a port"
	case err != nil || n == 0:
		return "has no port from 1 to 65535"
	case strings.Contains(name, "*"):
		return "has a pattern: each host is named"
	case !isName(name):
		return "does not begin with the name of a host"
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "is an address: hosts are reached by their name"
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; strings.Trim(last, "0123456789") == "" {
		return "is an address: hosts are reached by their name"
	}
	return ""
}

func isName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return true
}
