// Package oauth defines the table [transport.oauth].
package oauth

import (
	"fmt"
	"net/url"
	"strings"
)

// Settings is the OAuth client with which users sign in to a remote server (exthost login), if the
// authorization server requires a known one.
type Settings struct {
	// id of a client registered at the authorization server; default: exthost registers one
	ClientID string `toml:"client_id" json:"client_id,omitempty"`
	// secret of that client, if it has one: secret://NAME
	ClientSecret string `toml:"client_secret" json:"client_secret,omitempty" secret:"true"`
	// URL of a client metadata document, if the authorization server accepts them
	ClientMetadataURL string `toml:"client_metadata_url" json:"client_metadata_url,omitempty"`
	// scopes to request; default: those that the server asks for
	Scopes []string `toml:"scopes" json:"scopes,omitempty"`
	// port of 127.0.0.1 that the browser is redirected to; default 0, any free one
	CallbackPort int `toml:"callback_port" json:"callback_port,omitempty" jsonschema:"minimum=0,maximum=65535"`
}

// Problem is an error in the table: key, what is wrong, and what to do.
type Problem struct{ Field, Message, Hint string }

// Validate returns all errors in s, which may be nil.
func (s *Settings) Validate() (problems []Problem) {
	if s == nil {
		return nil
	}
	add := func(field, hint, format string, args ...any) {
		problems = append(problems, Problem{field, fmt.Sprintf(format, args...), hint})
	}
	if s.ClientSecret != "" && s.ClientID == "" {
		add("client_secret", "state client_id too", "a client_secret belongs to a client_id")
	}
	if s.ClientMetadataURL != "" {
		// The document's URL is the client's id and must have a path (MCP, "Client ID Metadata Documents").
		u, err := url.Parse(s.ClientMetadataURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.User != nil ||
			u.Fragment != "" {
			add("client_metadata_url", "such as https://example.com/client.json",
				"%q is not the https address of a document", s.ClientMetadataURL)
		}
	}
	for _, scope := range s.Scopes {
		if scope == "" || strings.ContainsFunc(scope,
			func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			add("scopes", "one scope in each text", "%q is not a scope", scope)
		}
	}
	if s.CallbackPort < 0 || s.CallbackPort > 65535 {
		add("callback_port", "0 is any free one", "%d is not a port", s.CallbackPort)
	}
	return problems
}
