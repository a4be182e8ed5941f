// Package clienttoken makes the tokens of named clients, and judges the names of clients and the
// hashes of their tokens.
package clienttoken

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Prefix begins every token, so that people and scanners for secrets recognise one.
const Prefix = "exthost_"

// New returns a token: the prefix and 256 random bits in base64url.
func New() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return Prefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// Is reports whether a text begins as tokens of this package do.
func Is(text string) bool { return strings.HasPrefix(text, Prefix) }

// scheme begins the text of a hash.
const scheme = "sha256:"

// Hash returns the hash of a token as files state it: sha256: and 64 hexadecimal digits. A slow
// hash would add nothing: it makes guesses dear, and nobody guesses 256 random bits. A fast one
// keeps requests with wrong tokens cheap for the server.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return scheme + hex.EncodeToString(sum[:])
}

// ParseHash returns the hash in a text of the form that [Hash] returns.
func ParseHash(text string) (sum [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, scheme)
	if n, err := hex.Decode(sum[:], []byte(digits[:min(len(digits), 2*len(sum))])); !ok || err != nil ||
		n != len(sum) || len(digits) != 2*len(sum) {
		return sum, errors.New("a hash is sha256: and 64 hexadecimal digits") // without the text, which may be a token
	}
	return sum, nil
}

var name = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Names of callers that are no named clients.
const (
	Static   = "token"    // who shows server.auth.token
	Operator = "operator" // who shows the operator's token
	Stdio    = "stdio:"   // the beginning of the names of callers on stdio
)

// Reserved reports whether a name is one of these, and so neither that of a client nor that of the subject
// of an access token.
func Reserved(name string) bool {
	return name == Static || name == Operator || strings.HasPrefix(name, Stdio)
}

// CheckName returns why a text cannot be the name of a client; nil if it can.
func CheckName(text string) error {
	if !name.MatchString(text) {
		return fmt.Errorf("%.80q is not the name of a client: 1 to 64 characters of a-z, 0-9, _ and -, not first _ "+
			"or -", text)
	}
	if Reserved(text) {
		return fmt.Errorf("%q cannot be the name of a client: callers with the static token and the operator have "+
			"the names token and operator", text)
	}
	return nil
}
