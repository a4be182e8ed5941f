// Package bearertoken reads and compares bearer tokens.
package bearertoken

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Sum is what is kept of a token; nil: there is none.
type Sum *[sha256.Size]byte

// SumOf returns the sum of a token; nil for "".
func SumOf(token string) Sum {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return &sum
}

// Shows reports whether a header has the token. The time of the comparison does not
// depend on how much of the token is right.
func Shows(header string, token Sum) bool {
	if token == nil {
		return false
	}
	sum := sha256.Sum256([]byte(Token(header))) // of the same length for every input
	return subtle.ConstantTimeCompare(sum[:], token[:]) == 1
}

// Header returns the Authorization header of a request. Several become one that shows no token: a proxy
// before this server may have gone by another of them.
func Header(h http.Header) string {
	if all := h.Values("Authorization"); len(all) > 1 {
		h.Set("Authorization", strings.Join(all, ", "))
	}
	return h.Get("Authorization")
}

// Token returns the token in a header; "" without one.
func Token(header string) string {
	if scheme, token, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimLeft(token, " ")
	}
	return ""
}
