package hosts

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
)

// Unlisted are the warnings and errors about files that became neither an extension nor
// a destination. Those about the others are shown with the extension or destination.
func Unlisted(s exthost.Status) []protocol.Diagnostic {
	listed := slices.Clone(s.Extensions)
	for _, d := range s.Destinations {
		listed = append(listed, d.ExtensionStatus)
	}
	var out []protocol.Diagnostic
	for _, d := range s.Diagnostics {
		if d.Level != protocol.LevelInfo && !slices.ContainsFunc(listed, func(x exthost.ExtensionStatus) bool { return Concerns(d, x) }) {
			out = append(out, d)
		}
	}
	return out
}

// BrokenFiles are the files that became no extension because of errors.
func BrokenFiles(s exthost.Status) (names []string) {
	for _, d := range Unlisted(s) {
		name := cmp.Or(console.Nearby(d).Path, d.Extension)
		if d.Level == protocol.LevelError && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Concerns reports whether d is about x, and not about a second file that claims its
// id. A manifest that is too broken to have an id concerns the extension that an earlier
// version of the same file became.
func Concerns(d protocol.Diagnostic, x exthost.ExtensionStatus) bool {
	if d.Extension == "" {
		return d.Path != "" && d.Path == x.Path
	}
	return d.Extension == x.ID && x.ID != "" && (d.Path == "" || filepath.Dir(d.Path) == filepath.Dir(x.Path))
}

// Said reports whether the reason of x already contains d.
func Said(x exthost.ExtensionStatus, d protocol.Diagnostic) bool {
	return x.Reason != "" && (strings.Contains(d.Message, x.Reason) || strings.Contains(x.Reason, d.Message))
}

// PrintDiagnostics prints on stderr the faults of files that a list of extensions
// lacks, and the first step when there is no extension at all.
func PrintDiagnostics(c *console.Console, s exthost.Status) {
	found := Unlisted(s)
	for _, d := range found {
		c.Say(d)
	}
	broken := func(d protocol.Diagnostic) bool { return d.Code != discovery.CodePathMissing }
	if len(s.Extensions) == 0 && !slices.ContainsFunc(found, broken) {
		c.Say(protocol.Diagnostic{Level: protocol.LevelInfo, Message: "no extension was found: one is a folder with a plugin.toml below ./extensions",
			Hint: "exthost init NAME --lang python writes one, exthost config show says where else they are looked for"})
	}
}

// PrintProblems prints on stderr which extensions a list of tools lacks, and why.
func PrintProblems(c *console.Console, s exthost.Status) {
	PrintDiagnostics(c, s)
	for _, x := range s.Extensions {
		if x.Reason == "" || x.State == exthost.StateDisabled {
			continue
		}
		c.Say(protocol.Diagnostic{Level: protocol.LevelWarn, Extension: x.ID, Message: x.State + ", " + x.Reason})
		for _, line := range console.LastWords(Evidence(x)) {
			fmt.Fprintln(c.Err, console.Safe(line))
		}
	}
}
