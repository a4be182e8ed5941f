// Package bundled implements the extensions that are part of the program. The program runs
// itself as their process, so they have no dependencies.
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

// digests are those of the folders below extensions/, each behind the name of its folder.
//
//go:embed digests.txt
var digests string

// Is reports whether a folder with that digest, as consent.Files has it, is one of those that
// are published with the program.
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
