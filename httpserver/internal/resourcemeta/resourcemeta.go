// Package resourcemeta publishes where clients get access tokens (RFC 9728).
package resourcemeta

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Path is the well-known path of a resource's metadata, to be inserted before the resource's path (RFC 9728, section
// 3.1).
const Path = "/.well-known/oauth-protected-resource"

// Covers reports whether path is a metadata path.
func Covers(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// MetadataURL returns the URL of a resource's metadata, or "" for an invalid URL.
func MetadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	u.Path = Path + strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// Metadata serves the metadata of a resource, which contains the authorization server.
func Metadata(resource, issuer, name string, scopes []string) http.Handler {
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               resource,
		AuthorizationServers:   []string{issuer},
		ScopesSupported:        scopes,
		BearerMethodsSupported: []string{"header"},
		ResourceName:           name,
	})
}
