package wire

import (
	"crypto/rand"
	"strings"
)

const (
	runLength   = 10
	runAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

// NewRun returns a random run name.
func NewRun() string {
	b := make([]byte, runLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = runAlphabet[b[i]%32]
	}
	return string(b)
}

// IsRun reports whether s is a valid run name.
func IsRun(s string) bool {
	for _, c := range []byte(s) {
		if strings.IndexByte(runAlphabet, c) < 0 {
			return false
		}
	}
	return len(s) == runLength
}
