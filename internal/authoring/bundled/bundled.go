// Package bundled implements the extensions that are part of the program. The program starts itself as their process.
// They have no dependencies.
package bundled

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/sdk"
)

var extensions = map[string]func() *sdk.Extension{
	"notes": notes,
}

// digests has a line for each folder below extensions/: its name and its digest.
//
//go:embed digests.txt
var digests string

// Is reports whether digest, as returned by consent.Files, is the digest of a folder published with the program.
func Is(digest string) bool {
	for line := range strings.Lines(digests) {
		if _, known, _ := strings.Cut(strings.TrimSpace(line), " "); known == digest {
			return true
		}
	}
	return false
}

//go:generate go test -run TestDigests -update .

// Run runs one bundled extension on stdin and stdout until it ends, and returns the exit
// code.
func Run(name string) (int, error) {
	extension, ok := extensions[name]
	if !ok {
		return 0, fmt.Errorf("there is no bundled extension %q, only %s", name,
			strings.Join(slices.Sorted(maps.Keys(extensions)), ", "))
	}
	return extension().Main(), nil
}
