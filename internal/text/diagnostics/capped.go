package diagnostics

import (
	"fmt"
	"slices"

	"github.com/exthost/exthost/protocol"
)

// Capped returns the first max diagnostics, and one more that counts the rest.
func Capped(diags []protocol.Diagnostic, max int) []protocol.Diagnostic {
	if len(diags) <= max {
		return diags
	}
	rest := diags[max:]
	last := rest[0]
	last.Message, last.Hint = fmt.Sprintf("and %d more, from here on", len(rest)), ""
	if slices.ContainsFunc(rest, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }) {
		last.Level = protocol.LevelError
	}
	return append(diags[:max:max], last)
}
