package manifest

import (
	"net/url"
	"strings"
)

// OAuthClient is the client with which users sign in to a remote server (exthost secret login), if the authorization
// server requires a known one.
type OAuthClient struct {
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

// Validate returns all errors in o, which may be nil.
func (o *OAuthClient) Validate() []Problem {
	if o == nil {
		return nil
	}
	var p problems
	if o.ClientSecret != "" && o.ClientID == "" {
		p.add("client_secret", "state client_id too", "a client_secret belongs to a client_id")
	}
	if o.ClientMetadataURL != "" && !isClientDocument(o.ClientMetadataURL) {
		p.add("client_metadata_url", "such as https://example.com/client.json",
			"%q is not the https address of a document", o.ClientMetadataURL)
	}
	for _, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, notInScope) {
			p.add("scopes", "one scope in each text", "%q is not a scope", scope)
		}
	}
	if o.CallbackPort < 0 || o.CallbackPort > 65535 {
		p.add("callback_port", "0 is any free one", "%d is not a port", o.CallbackPort)
	}
	return p
}

// isClientDocument reports whether address can be that of a client metadata document. Such an address is the client's
// id and must have a path (MCP, "Client ID Metadata Documents").
func isClientDocument(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != "" && strings.Trim(u.Path, "/") != "" && u.User == nil &&
		u.Fragment == ""
}

func notInScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
