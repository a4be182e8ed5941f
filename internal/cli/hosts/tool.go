package hosts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// UnknownTool is the error about a tool that the host does not have. It says why the
// extension that should have the tool does not offer it, or which tool was meant.
func UnknownTool(s exthost.Status, name string) error {
	for _, x := range s.Extensions {
		if slices.Contains(x.Withheld, name) {
			return &console.Error{Code: console.ExitDenied, Text: fmt.Sprintf("tool %s is held back: it does not say of itself what it said when it was pinned", name),
				Hint: "exthost policy pins, then exthost policy pins approve " + x.ID}
		}
		if tools.MayOwn(x.ID, name) && x.Reason != "" {
			return unavailable(name, x, s.Diagnostics)
		}
	}
	for _, d := range s.Diagnostics {
		if d.Extension != "" && d.Level == protocol.LevelError && tools.MayOwn(d.Extension, name) {
			return BrokenManifest(s, d.Extension)
		}
	}
	var names, ids []string
	for _, x := range s.Extensions {
		names, ids = append(names, x.Tools...), append(ids, x.ID)
	}
	meant := console.DidYouMean(name, names)
	if id := nearestOwner(name, ids); meant == "" && id != "" {
		meant = fmt.Sprintf(", did you mean one of extension %q?", id)
	}
	return &console.Error{Code: console.ExitNotFound, Text: fmt.Sprintf("there is no tool %q%s", name, meant), Hint: "exthost tools list"}
}

// nearestOwner is the extension whose id the beginning of a tool's name resembles; ""
// when there is none.
func nearestOwner(name string, ids []string) string {
	words := strings.Split(strings.TrimPrefix(name, "ext_"), "_")
	for n := len(words); n > 0; n-- {
		if near := nearest.Of(strings.Join(words[:n], "_"), ids); near != "" {
			return near
		}
	}
	return ""
}

// unavailable is the error about a tool of an extension that offers none. The exit code
// is that of the reason.
func unavailable(name string, x exthost.ExtensionStatus, diags []protocol.Diagnostic) error {
	e := &console.Error{Code: console.ExitExtension, Hint: "exthost info " + x.ID}
	switch x.State {
	case exthost.StateSkipped:
		e.Code = console.ExitGated
		for _, d := range diags {
			if Concerns(d, x) && d.Level == protocol.LevelError {
				e.Code = console.KindCode(protocol.Kind(d.Code))
			}
			if Concerns(d, x) && d.Hint != "" && d.Level != protocol.LevelInfo {
				e.Hint = d.Hint
			}
		}
	case exthost.StateDisabled:
		e.Code, e.Hint = console.ExitDenied, "exthost enable "+x.ID
		if strings.Contains(x.Reason, "allowlist") {
			e.Hint = "exthost allow " + x.ID
		}
	}
	lines := append([]string{fmt.Sprintf("no tool %q, because extension %s is %s: %s", name, x.ID, x.State, x.Reason)}, console.LastWords(Evidence(x))...)
	e.Text = strings.Join(lines, "\n")
	return e
}

// Description is the description of a tool without the mark of its extension.
func Description(description, extension string) string {
	return strings.TrimPrefix(description, "[ext:"+extension+"] ")
}

// Tokens estimates what tools cost in every model request.
func Tokens(entries []*tools.Entry) int {
	sum := 0
	for _, e := range entries {
		sum += e.Tokens()
	}
	return sum
}
