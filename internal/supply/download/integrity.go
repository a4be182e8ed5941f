package download

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrNoIntegrity is returned when no SHA-512 or SHA-256 hash is stated.
var ErrNoIntegrity = errors.New("no SHA-512 or SHA-256 is stated for it")

// Strongest returns the strongest hash of a space-separated integrity list: "sha512-" or "sha256-" and base64.
func Strongest(list string) (string, error) {
	for _, prefix := range []string{"sha512-", "sha256-"} {
		for word := range strings.FieldsSeq(list) {
			if strings.HasPrefix(word, prefix) {
				word, _, _ = strings.Cut(word, "?")
				return word, nil
			}
		}
	}
	return "", ErrNoIntegrity
}

// SHA256 converts a hexadecimal SHA-256 to the form of [Verify].
func SHA256(inHex string) (string, error) {
	sum, err := hex.DecodeString(inHex)
	if err != nil || len(sum) != sha256.Size {
		return "", ErrNoIntegrity
	}
	return "sha256-" + base64.StdEncoding.EncodeToString(sum), nil
}

// Verify compares the hash of data with integrity: "sha512-" or "sha256-" and base64.
func Verify(data []byte, integrity string) error {
	var got string
	switch {
	case strings.HasPrefix(integrity, "sha512-"):
		sum := sha512.Sum512(data)
		got = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	case strings.HasPrefix(integrity, "sha256-"):
		got = Sum(data)
	default:
		return ErrNoIntegrity
	}
	if subtle.ConstantTimeCompare([]byte(got), []byte(integrity)) != 1 {
		return fmt.Errorf("its content has the hash %s, and %s is stated", got, integrity)
	}
	return nil
}

// Sum returns the SHA-256 of data in the form of [Verify].
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
