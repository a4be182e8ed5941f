// Package mcpext reads the MCP extensions declared by clients and servers, and merges the declarations of several
// servers. It is stateless.
package mcpext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Bounds of one declaration. What exceeds them is ignored and reported.
const (
	maxIDs      = 64
	maxID       = 128     // bytes
	maxSettings = 8 << 10 // bytes, of one extension
	maxDepth    = 16      // nesting; the cost of merging grows with its square
	maxProblems = 8
)

// Extension is one declared extension of MCP.
type Extension struct {
	ID       string          // such as io.modelcontextprotocol/ui
	Settings json.RawMessage // an object
}

// wellFormed matches the identifiers of extensions: a prefix of labels, a slash and a name (MCP 2026-07-28, basic,
// "_meta", and SEP-2133).
var wellFormed = regexp.MustCompile(
	`^[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*` +
		`/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// ofConnection are the extensions about the connection between one client and one server. The host itself is the
// client of its servers, so merged declarations omit them. A modern client's own declarations are passed on
// unchanged.
var ofConnection = []string{
	protocol.MetaPrefix + "oauth-client-credentials",
	protocol.MetaPrefix + "enterprise-managed-authorization",
}

// Read returns the extensions declared in the capabilities of a client or server, in order, and reports ignored ones.
// Extensions about the connection are omitted silently.
func Read(capabilities json.RawMessage) (list []Extension, problems []string) {
	if !bytes.Contains(capabilities, []byte("extensions")) {
		return nil, nil
	}
	declared := rawjson.Get(capabilities, "extensions")
	if declared == nil {
		return nil, nil
	}
	if !rawjson.IsObject(declared) {
		return nil, []string{"capabilities.extensions is ignored: it is no object"}
	}
	seen, more := make(map[string]bool), 0
	for id, settings := range rawjson.Members(declared) {
		if slices.Contains(ofConnection, id) {
			continue
		}
		problem := check(id, settings)
		switch {
		case problem == "" && seen[id]:
			problem = "is declared twice; the first one counts"
		case problem == "" && len(list) == maxIDs:
			problem = fmt.Sprintf("is ignored: at most %d are read", maxIDs)
		}
		switch {
		case problem == "":
			seen[id] = true
			list = append(list, Extension{id, settings})
		case len(problems) < maxProblems:
			problems = append(problems,
				fmt.Sprintf("the MCP extension %q %s", display.Cut(display.Visible(id), maxID), problem))
		default:
			more++
		}
	}
	if more > 0 {
		problems = append(problems, fmt.Sprintf("%d more MCP extensions are ignored", more))
	}
	return list, problems
}

// check returns why a declaration is ignored, or "".
func check(id string, settings json.RawMessage) string {
	switch {
	case len(id) > maxID:
		return fmt.Sprintf("is ignored: its identifier has %d bytes, at most %d are read", len(id), maxID)
	case !wellFormed.MatchString(id):
		return "is ignored: an identifier is a prefix, a slash and a name, such as com.example/name"
	case !rawjson.IsObject(settings):
		return "is ignored: its settings are no object"
	case len(settings) > maxSettings:
		return fmt.Sprintf("is ignored: its settings have %d bytes, at most %d are read", len(settings), maxSettings)
	}
	return checkTokens(settings)
}

// checkTokens checks the nesting of settings, and looks for control and invisible characters in keys and texts. It
// returns the problem like [check].
func checkTokens(settings json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(settings))
	d.UseNumber()
	depth := 0
	for {
		token, err := d.Token()
		if err != nil {
			return "" // the end: settings is valid JSON
		}
		switch token := token.(type) {
		case json.Delim:
			if depth++; token == '}' || token == ']' {
				depth -= 2
			}
		case string:
			if strings.ContainsFunc(token, func(r rune) bool { return unicode.IsControl(r) || display.Invisible(r) }) {
				return "is ignored: its settings hold characters that a reader cannot see"
			}
		}
		if depth > maxDepth {
			return fmt.Sprintf("is ignored: its settings are nested more than %d deep", maxDepth)
		}
	}
}

// Encode encodes list as the value of capabilities.extensions.
func Encode(list []Extension) json.RawMessage {
	out := []byte{'{'}
	for _, x := range list {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(rawjson.AppendText(out, x.ID), ':'), x.Settings...)
	}
	return append(out, '}')
}
