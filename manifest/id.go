package manifest

import (
	"fmt"
	"regexp"
	"slices"
)

// MaxIDLength is the most bytes an extension's id may have.
const MaxIDLength = 64

// reserved ids would be taken for a part of the agent or shadow an HTTP route.
var reserved = []string{
	"agent", "browser", "core", "email", "exthost", "heartbeat", "memory", "telegram", "whatsapp",
	"api", "healthz", "mcp", "message", "metrics", "readyz", "sse", "ui",
}

// ReservedIDs returns the ids no extension may have, sorted.
func ReservedIDs() []string { return slices.Sorted(slices.Values(reserved)) }

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// ValidateID says what is wrong with an extension's id: it must match
// ^[a-z][a-z0-9_-]*$, have at most [MaxIDLength] bytes and not be reserved.
func ValidateID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("an id is needed, such as %q", "weather")
	case len(id) > MaxIDLength:
		return fmt.Errorf("an id has at most %d characters, this one has %d", MaxIDLength, len(id))
	case !idPattern.MatchString(id):
		return fmt.Errorf("%q is not an id: it starts with a-z and goes on with a-z, 0-9, _ and -", id)
	case slices.Contains(reserved, id):
		return fmt.Errorf("%q is reserved for the host", id)
	}
	return nil
}
