package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// unknownTool says why the extension that should have the tool does not offer it,
// or which tool was meant.
func unknownTool(s status.Status, name string) error {
	for _, x := range s.Extensions {
		if slices.Contains(x.Withheld, name) {
			return &exitError{code: exitDenied, text: fmt.Sprintf("tool %s is held back: it does not say of itself what it said when it was pinned", name),
				hint: "exthost policy pins, then exthost policy pins approve " + x.ID}
		}
		if tools.MayOwn(x.ID, name) && x.Reason != "" {
			return unavailable(name, x, s.Diagnostics)
		}
	}
	for _, d := range s.Diagnostics {
		if d.Extension != "" && d.Level == protocol.LevelError && tools.MayOwn(d.Extension, name) {
			return brokenManifest(s, d.Extension)
		}
	}
	text := fmt.Sprintf("there is no tool %q", name)
	var names, ids []string
	for _, x := range s.Extensions {
		names, ids = append(names, x.Tools...), append(ids, x.ID)
	}
	if near := nearest.Of(name, names); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	} else if id := nearestOwner(name, ids); id != "" {
		text += fmt.Sprintf(", did you mean one of extension %q?", id)
	}
	return &exitError{code: exitNotFound, text: text, hint: "exthost tools list"}
}

// nearestOwner is the extension whose id the beginning of a tool's name resembles.
func nearestOwner(name string, ids []string) string {
	words := strings.Split(strings.TrimPrefix(name, "ext_"), "_")
	for n := len(words); n > 0; n-- {
		if near := nearest.Of(strings.Join(words[:n], "_"), ids); near != "" {
			return near
		}
	}
	return ""
}

// unavailable is why an extension offers no tools, with the exit code of that.
func unavailable(name string, x status.Extension, diags []protocol.Diagnostic) error {
	e := &exitError{code: exitExtension, hint: "exthost info " + x.ID}
	switch x.State {
	case status.StateSkipped:
		e.code = exitGated
		for _, d := range diags {
			if concerns(d, x) && d.Level == protocol.LevelError {
				e.code = kindCode(protocol.Kind(d.Code))
			}
			if concerns(d, x) && d.Hint != "" && d.Level != protocol.LevelInfo {
				e.hint = d.Hint
			}
		}
	case status.StateDisabled:
		e.code, e.hint = exitDenied, "exthost enable "+x.ID
		if strings.Contains(x.Reason, "allowlist") {
			e.hint = "exthost allow " + x.ID
		}
	}
	lines := append([]string{fmt.Sprintf("no tool %q, because extension %s is %s: %s", name, x.ID, x.State, x.Reason)}, lastWords(evidence(x))...)
	e.text = strings.Join(lines, "\n")
	return e
}
