package httpserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// tokenHash is the hash of a token; nil if there is none.
type tokenHash [sha256.Size]byte

// hashToken returns the hash of a token, or nil for "".
func hashToken(token string) *tokenHash {
	if token == "" {
		return nil
	}
	sum := tokenHash(sha256.Sum256([]byte(token)))
	return &sum
}

// isIn reports whether the header contains the token, in constant time.
func (t *tokenHash) isIn(header string) bool {
	if t == nil {
		return false
	}
	sum := sha256.Sum256([]byte(bearerToken(header))) // same length for every input
	return subtle.ConstantTimeCompare(sum[:], t[:]) == 1
}

// authorizationOf returns the Authorization header of a request. It joins several headers to one that contains no
// valid token, because a proxy may have checked only one of them.
func authorizationOf(h http.Header) string {
	if all := h.Values("Authorization"); len(all) > 1 {
		h.Set("Authorization", strings.Join(all, ", "))
	}
	return h.Get("Authorization")
}

// bearerToken returns the bearer token in a header, or "".
func bearerToken(header string) string {
	if scheme, token, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimLeft(token, " ")
	}
	return ""
}
