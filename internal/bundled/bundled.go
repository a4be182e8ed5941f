// Package bundled implements the extensions that are part of the program. The program runs
// itself as their process, so they have no dependencies.
package bundled

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/sdk"
)

var extensions = map[string]func() *sdk.Extension{
	"notes": notes,
}

// Run runs one bundled extension on stdin and stdout until it ends, and returns the exit
// code.
func Run(name string) (int, error) {
	extension, ok := extensions[name]
	if !ok {
		return 0, fmt.Errorf("there is no bundled extension %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(extensions)), ", "))
	}
	return extension().Main(), nil
}
