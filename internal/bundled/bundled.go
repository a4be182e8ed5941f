// Package bundled holds the extensions that are part of the program: it runs
// itself as them, so that they need nothing else on the machine.
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

// Run is the whole life of one bundled extension on stdin and stdout; it returns
// the exit code.
func Run(name string) (int, error) {
	extension, ok := extensions[name]
	if !ok {
		return 0, fmt.Errorf("there is no bundled extension %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(extensions)), ", "))
	}
	return extension().Main(), nil
}
