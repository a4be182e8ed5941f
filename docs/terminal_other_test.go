//go:build !linux

package docs_test

import (
	"os"
	"testing"
)

// openTerminal skips what shows how the program speaks to a person.
func openTerminal(t testing.TB) (reader, terminal *os.File) {
	t.Skip("the rest of the page needs a terminal")
	return nil, nil
}
