// Package bearertoken parses and compares bearer tokens.
package bearertoken

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Sum is the hash of a token; nil if there is none.
type Sum *[sha256.Size]byte

// SumOf returns the hash of a token, or nil for "".
func SumOf(token string) Sum {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return &sum
}

// Shows reports whether the header contains the token, in constant time.
func Shows(header string, token Sum) bool {
	if token == nil {
		return false
	}
	sum := sha256.Sum256([]byte(Token(header))) // same length for every input
	return subtle.ConstantTimeCompare(sum[:], token[:]) == 1
}

// Header returns the Authorization header of a request. Several headers are joined to one without a valid token,
// because a proxy may have checked another one of them.
func Header(h http.Header) string {
	if all := h.Values("Authorization"); len(all) > 1 {
		h.Set("Authorization", strings.Join(all, ", "))
	}
	return h.Get("Authorization")
}

// Token returns the bearer token in a header, or "".
func Token(header string) string {
	if scheme, token, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimLeft(token, " ")
	}
	return ""
}
