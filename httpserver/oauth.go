package httpserver

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// OAuth makes the server an OAuth 2.0 resource server: it accepts access tokens of an authorization server, and
// publishes metadata (RFC 9728) that tells MCP clients where to get one.
type OAuth struct {
	Resource string   // this server's URL for clients, such as https://host.example/mcp; required
	Issuer   string   // iss of the authorization server's tokens; required
	Audience string   // aud of tokens for this server; default Resource
	KeysURL  string   // URL of the issuer's JSON Web Key Set; default: jwks_uri of the issuer's metadata
	Scopes   []string // scopes that a token must have

	Client *http.Client // fetches metadata and keys, 10 s each; default http.DefaultClient
}

// metadataPath is the well-known path of a resource's metadata, to be inserted before the resource's path (RFC 9728,
// section 3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// isMetadataPath reports whether path is a metadata path.
func isMetadataPath(path string) bool {
	return path == metadataPath || strings.HasPrefix(path, metadataPath+"/")
}

// metadataURL returns the URL of a resource's metadata, or "" for an invalid URL.
func metadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	u.Path = metadataPath + strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// metadata serves the metadata of the resource, which contains the authorization server.
func (o *OAuth) metadata(name string) http.Handler {
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               o.Resource,
		AuthorizationServers:   []string{o.Issuer},
		ScopesSupported:        o.Scopes,
		BearerMethodsSupported: []string{"header"},
		ResourceName:           name,
	})
}
