package hosts

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Unlisted returns the warnings and errors about files that became neither an extension nor a destination. All other
// diagnostics are shown with their extension or policy.
func Unlisted(s status.Status) []protocol.Diagnostic {
	listed := slices.Clone(s.Extensions)
	for _, d := range s.Destinations {
		listed = append(listed, d.Extension)
	}
	for _, p := range s.Policies {
		if p.Process != nil { // so that a command that shows no policies still reports a policy that has no process
			listed = append(listed, *p.Process)
		}
	}
	var out []protocol.Diagnostic
	for _, d := range s.Diagnostics {
		if d.Level != protocol.LevelInfo &&
			!slices.ContainsFunc(listed, func(x status.Extension) bool { return Concerns(d, x) }) {
			out = append(out, d)
		}
	}
	return out
}

// BrokenConfig returns the errors of the configuration on disk; nil if that configuration is in force.
func BrokenConfig(s status.Status) (diags []protocol.Diagnostic) {
	for _, d := range s.Diagnostics {
		if d.Code == string(protocol.ConfigInvalid) && d.Extension == "" && d.Level == protocol.LevelError {
			diags = append(diags, d)
		}
	}
	return diags
}

// Warnings returns the warnings about the configuration in force that belong to no extension, policy or file.
func Warnings(s status.Status) (texts []string) {
	for _, d := range s.Diagnostics {
		if OfConfig(d) {
			texts = append(texts, strings.TrimSuffix(d.Message+"; "+d.Hint, "; "))
		}
	}
	return texts
}

// OfConfig reports whether [Warnings] includes d.
func OfConfig(d protocol.Diagnostic) bool {
	return d.Level == protocol.LevelWarn && d.Extension == "" && d.Path == ""
}

// BrokenFiles returns the files that became no extension because of errors.
func BrokenFiles(s status.Status) (names []string) {
	for _, d := range Unlisted(s) {
		name := cmp.Or(console.Nearby(d).Path, d.Extension)
		if d.Level == protocol.LevelError && d.Code != string(protocol.ConfigInvalid) && name != "" &&
			!slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Concerns reports whether d is about x, and not about a second file that claims the id of x. A manifest too broken to
// have an id concerns the extension that an earlier version of the manifest defined.
func Concerns(d protocol.Diagnostic, x status.Extension) bool {
	if d.Extension == "" {
		return d.Path != "" && d.Path == x.Path
	}
	return d.Extension == x.ID && x.ID != "" && (d.Path == "" || filepath.Dir(d.Path) == filepath.Dir(x.Path))
}

// Said reports whether the reason of x already contains d.
func Said(x status.Extension, d protocol.Diagnostic) bool {
	return x.Reason != "" && (strings.Contains(d.Message, x.Reason) || strings.Contains(x.Reason, d.Message))
}

// PrintDiagnostics prints on stderr the faults of files that are missing in a list of extensions. If there are no
// extensions at all, it prints what to do first. It leaves out faults of the configuration, which [Reach] prints.
func PrintDiagnostics(c *console.Console, s status.Status) {
	config := BrokenConfig(s)
	found := slices.DeleteFunc(Unlisted(s),
		func(d protocol.Diagnostic) bool { return d.Path != "" && slices.Contains(config, d) })
	for _, d := range found {
		c.Say(d)
	}
	broken := func(d protocol.Diagnostic) bool { return d.Code != discovery.CodePathMissing }
	if len(s.Extensions) == 0 && !slices.ContainsFunc(found, broken) {
		c.Say(protocol.Diagnostic{
			Level:   protocol.LevelInfo,
			Message: "no extension was found: one is a folder with a plugin.toml below ./extensions",
			Hint: "exthost init NAME --lang python writes one, exthost config show says where else they are " +
				"looked for",
		})
	}
}

// PrintProblems prints on stderr which extensions and tools are missing in a list of tools, and why.
func PrintProblems(c *console.Console, s status.Status) {
	PrintDiagnostics(c, s)
	for _, x := range s.Extensions {
		if len(x.Withheld) > 0 {
			c.Say(protocol.Diagnostic{
				Level:     protocol.LevelWarn,
				Extension: x.ID,
				Message:   "held back, because they changed: " + consent.Some(x.Withheld),
				Hint:      "exthost policy pins shows how; exthost tools accept " + x.ID + " lets them pass",
			})
		}
		if x.Reason == "" || x.State == status.StateDisabled {
			continue
		}
		c.Say(protocol.Diagnostic{Level: protocol.LevelWarn, Extension: x.ID, Message: x.State + ", " + x.Reason})
		for _, line := range console.LastWords(Evidence(x)) {
			c.Tell(console.Safe(line))
		}
	}
	for _, x := range s.Extensions {
		if len(x.Undeclared) > 0 {
			c.Say(protocol.Diagnostic{
				Level:     protocol.LevelWarn,
				Extension: x.ID,
				Message: "offers tools that [capabilities] of its manifest does not list, and that are dropped: " +
					strings.Join(x.Undeclared, ", "),
				Hint: "add them to the list, or leave it out, which admits every tool",
			})
		}
	}
}

// UnknownTool returns the error for a tool that the host does not have: why its extension does not offer it, or a
// suggestion.
func UnknownTool(s status.Status, name string) error {
	for _, x := range s.Extensions {
		if slices.Contains(x.Withheld, name) {
			return &console.Error{
				Code: console.ExitDenied,
				Text: fmt.Sprintf("tool %s is held back: it does not say of itself what it said when it was pinned",
					name),
				Hint: "exthost policy pins, then exthost tools accept " + x.ID,
			}
		}
		if tools.MayOwn(x.ID, name) && x.Reason != "" {
			return unavailable(name, x, s)
		}
		if err := undeclared(x, name); err != nil {
			return err
		}
	}
	if err := notRead(s, name); err != nil {
		return err
	}
	return &console.Error{
		Code: console.ExitNotFound,
		Text: fmt.Sprintf("there is no tool %q%s", name, meant(s, name)),
		Hint: "exthost tools list",
	}
}

// notRead returns the error for a tool of an extension that was found and not read, nil for any other tool.
func notRead(s status.Status, name string) error {
	for _, d := range s.Diagnostics {
		switch {
		case d.Extension != "" && d.Level == protocol.LevelError && tools.MayOwn(d.Extension, name):
			return BrokenManifest(s, d.Extension)
		case d.Code == discovery.CodeNested && tools.MayOwn(d.Extension, name):
			return belowAnother(d)
		case d.Code == discovery.CodeLinkSkipped && tools.MayOwn(filepath.Base(Linked(d)), name):
			return NotFollowed(d)
		}
	}
	return nil
}

// Linked returns the folder of the extension behind a link that d is about. The link is the folder or its manifest.
func Linked(d protocol.Diagnostic) string {
	switch filepath.Base(d.Path) {
	case manifest.FileName, agentplugin.FileName:
		return filepath.Dir(d.Path)
	}
	return d.Path
}

// NotFollowed returns the error for an extension behind a link that d is about.
func NotFollowed(d protocol.Diagnostic) error {
	return &console.Error{
		Code: console.ExitNotFound,
		Text: console.NearbyPath(d.Path) + ": " + d.Message,
		Hint: "exthost config show --origin",
	}
}

// undeclared returns the error for a tool that x offers and [capabilities] does not list, nil for any other tool.
func undeclared(x status.Extension, name string) error {
	for _, own := range x.Undeclared {
		if tools.NameOf(x.ID, own) == name {
			return &console.Error{
				Code: console.ExitNotFound,
				Text: fmt.Sprintf("extension %s offers %s, and tools of [capabilities] in %s does not list it",
					x.ID, own, console.NearbyPath(x.Path)),
				Hint: fmt.Sprintf("add %q to the list, or leave the list out, which admits every tool", own),
			}
		}
	}
	return nil
}

// meant suggests what was meant by the name of an unknown tool.
func meant(s status.Status, name string) string {
	var names, ids []string
	for _, x := range s.Extensions {
		names = append(names, x.Tools...)
		if len(x.Tools) > 0 || x.State != string(supervisor.Ready) { // else it has no tools
			ids = append(ids, x.ID)
		}
	}
	if full := fullNames(name, s); full != nil {
		return fmt.Sprintf(", did you mean %s?", strings.Join(full, " or "))
	}
	if near := console.DidYouMean(name, names); near != "" {
		return near
	}
	if id := nearestOwner(name, ids); id != "" {
		return fmt.Sprintf(", did you mean one of extension %q?", id)
	}
	if !strings.HasPrefix(name, "ext_") {
		return ": names begin with the extension, ext_EXTENSION_TOOL"
	}
	return ""
}

// maxFullNames bounds the names that are suggested for one word.
const maxFullNames = 3

// fullNames returns the registered names of tools whose own name is name, quoted.
func fullNames(name string, s status.Status) (full []string) {
	for _, x := range s.Extensions {
		if registered := tools.NameOf(x.ID, name); slices.Contains(x.Tools, registered) && len(full) < maxFullNames {
			full = append(full, strconv.Quote(registered))
		}
	}
	return full
}

// nearestOwner returns the extension whose id is nearest to the beginning of a tool's name.
func nearestOwner(name string, ids []string) string {
	words := strings.Split(strings.TrimPrefix(name, "ext_"), "_")
	for n := len(words); n > 0; n-- {
		if near := text.Nearest(strings.Join(words[:n], "_"), ids); near != "" {
			return near
		}
	}
	return ""
}

// Readable is the next step for an extension whose files cannot be read.
const Readable = "let the user of the host read it, then exthost reload"

// Remedy returns the first hint in the diagnostics about an extension that cannot run; "" if there is none.
func Remedy(s status.Status, x status.Extension) (hint string) {
	for _, d := range s.Diagnostics {
		if hint == "" && Concerns(d, x) && d.Hint != "" && d.Level != protocol.LevelInfo {
			hint = d.Hint
		}
	}
	return hint
}

// unavailable returns the error for a tool of an extension that cannot run.
func unavailable(name string, x status.Extension, s status.Status) error {
	e := &console.Error{Code: console.ExitExtension, Hint: "exthost status " + x.ID}
	switch x.State {
	case status.StateSkipped:
		e.Code = console.ExitGated
		for _, d := range s.Diagnostics {
			if Concerns(d, x) && d.Level == protocol.LevelError {
				e.Code = console.KindCode(protocol.Kind(d.Code))
			}
		}
		e.Hint = cmp.Or(Remedy(s, x), e.Hint)
	case status.StateUntrusted:
		e.Code, e.Hint = console.ExitDenied, cmp.Or(Remedy(s, x), "exthost trust "+x.ID)
		e.Cause = NotTrusted{}
	case status.StateNotReady:
		e.Hint = Readable
	case status.StateDisabled:
		e.Code, e.Hint = console.ExitDenied, "exthost enable "+x.ID
	}
	lines := append([]string{fmt.Sprintf("no tool %q, because extension %s is %s: %s", name, x.ID, x.State, x.Reason)},
		console.LastWords(Evidence(x))...)
	e.Text = strings.Join(lines, "\n")
	return e
}

// Description returns a tool's description without the mark of its extension.
func Description(description, extension string) string {
	return strings.TrimPrefix(description, "[ext:"+extension+"] ")
}

// Tokens estimates how many tokens the tools take in every model request.
func Tokens(entries []*tools.Entry) int {
	sum := 0
	for _, e := range entries {
		sum += e.Tokens()
	}
	return sum
}
