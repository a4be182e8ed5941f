// Package clienttoken creates tokens of named clients, and validates client names and token hashes.
package clienttoken

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Prefix starts every token, so that people and secret scanners recognise one.
const Prefix = "exthost_"

// New returns a random token: Prefix and 256 bits in base64url.
func New() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return Prefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// Is reports whether text starts like a token of this package.
func Is(text string) bool { return strings.HasPrefix(text, Prefix) }

// scheme starts the text of a hash.
const scheme = "sha256:"

// Hash returns the hash of a token for configuration files: sha256: and 64 hexadecimal digits. A slow hash would
// not help, since 256 random bits cannot be guessed, and would make wrong tokens expensive for the server.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return scheme + hex.EncodeToString(sum[:])
}

// ParseHash parses the result of [Hash].
func ParseHash(text string) (sum [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, scheme)
	if ok = ok && len(digits) == hex.EncodedLen(len(sum)); ok {
		_, err = hex.Decode(sum[:], []byte(digits))
	}
	if !ok || err != nil {
		return sum, errors.New("a hash is sha256: and 64 hexadecimal digits") // text is not quoted: it may be a token
	}
	return sum, nil
}

var name = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Names of callers that are not named clients.
const (
	Static   = "token"    // caller with server.auth.token
	Operator = "operator" // caller with the operator's token
	Stdio    = "stdio:"   // prefix for callers on stdio
)

// Reserved reports whether a name is one of the above, so that neither a client nor an access token's subject may
// have it.
func Reserved(name string) bool {
	return name == Static || name == Operator || strings.HasPrefix(name, Stdio)
}

// CheckName returns why text is not a valid client name, or nil.
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

// Stated holds the token settings of a client in the configuration.
type Stated struct{ Hash, OldHash, OldUntil, Since string }

// Problem is an error in the configuration of a client.
type Problem struct {
	Client  string // "" for the number of clients
	Key     string // configuration key; "" for the client as a whole
	Message string
	Hint    string // next step; may be ""
}

// maxClients limits the clients, because each request is compared with all of them.
const maxClients = 1024

// Check returns the errors in the configured clients, sorted by name.
func Check(clients map[string]Stated) (list []Problem) {
	if len(clients) > maxClients {
		list = append(list, Problem{"", "", fmt.Sprintf("%d clients are more than %d", len(clients), maxClients), ""})
	}
	owners := make(map[string]string) // client and key by hash
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c := clients[name]
		fail := func(key, hint, format string, args ...any) {
			list = append(list, Problem{name, key, fmt.Sprintf(format, args...), hint})
		}
		if err := CheckName(name); err != nil {
			fail("", "", "%v", err)
		}
		for _, hash := range []struct{ key, text string }{{"token_hash", c.Hash}, {"old_token_hash", c.OldHash}} {
			if hash.text == "" {
				continue
			}
			sum, err := ParseHash(hash.text)
			if err != nil {
				fail(hash.key, "exthost client add NAME makes a token and its hash", "%v", err)
			} else if other := owners[string(sum[:])]; other != "" {
				fail(hash.key, "exthost client rotate "+name, "it is the hash of another token too: server.clients.%s",
					other)
			} else {
				owners[string(sum[:])] = name + "." + hash.key
			}
		}
		if (c.OldHash == "") != (c.OldUntil == "") {
			fail("", "", "old_token_hash and old_until go together")
		}
		for _, date := range []struct{ key, text string }{{"old_until", c.OldUntil}, {"since", c.Since}} {
			if _, err := time.Parse(time.RFC3339, date.text); date.text != "" && err != nil {
				fail(date.key, "such as 2030-01-31T12:00:00Z", "%q is not a date and time", date.text)
			}
		}
	}
	return list
}
