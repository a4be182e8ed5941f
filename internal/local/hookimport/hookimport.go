// Package hookimport converts the hooks in Claude Code's settings to the host's configuration.
package hookimport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

// Result is the result of importing a settings file.
type Result struct {
	Hooks []manifest.HookSpec `json:"hooks"` // in file order
	Notes []Note              `json:"notes"` // hooks that were dropped or behave differently

	options Options
}

// Note describes a problem at one place of the file.
type Note struct {
	Where   string `json:"where"` // PreToolUse[0].hooks[1]
	Dropped bool   `json:"dropped"`
	Message string `json:"message"`
}

// Options configure [Read].
type Options struct {
	// Plugin means that the hooks become those of an extension, in the folder of the plugin, which CLAUDE_PLUGIN_ROOT
	// names. Else such a hook is dropped.
	Plugin bool
}

// Read imports a settings.json, or the hooks.json of a plugin. It fails if the file is neither.
func Read(data []byte, o Options) (*Result, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var settings struct {
		Hooks      json.RawMessage `json:"hooks"`
		DisableAll bool            `json:"disableAllHooks"`
	}
	if err := json.Unmarshal(data, &settings); err != nil {
		return nil, withLine(data, err)
	}
	if err := rawjson.Check(data); err != nil {
		return nil, err
	}
	r := &Result{Hooks: []manifest.HookSpec{}, Notes: []Note{}, options: o}
	if settings.DisableAll {
		r.addNote("disableAllHooks", false, "the file turns all hooks off; they are on here")
	}
	if len(settings.Hooks) > 0 && settings.Hooks[0] != '{' {
		return nil, errors.New("hooks is not an object of events")
	}
	for event, groups := range rawjson.Members(settings.Hooks) {
		if err := r.event(event, groups); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// withLine adds the line to a JSON error.
func withLine(data []byte, err error) error {
	var at int64
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at = kind.Offset
	default:
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(int(at), len(data))], []byte("\n")), err)
}

func (r *Result) addNote(where string, dropped bool, format string, args ...any) {
	r.Notes = append(r.Notes, Note{Where: where, Dropped: dropped, Message: fmt.Sprintf(format, args...)})
}

// group holds the hooks of one matcher.
type group struct {
	Matcher *string           `json:"matcher"`
	Hooks   []json.RawMessage `json:"hooks"`
}

func (r *Result) event(name string, raw json.RawMessage) error {
	var groups []group
	if err := json.Unmarshal(raw, &groups); err != nil {
		return fmt.Errorf("hooks.%s is not a list of {matcher, hooks}: %w", name, err)
	}
	event, reason := eventOf(name)
	if event == "" {
		r.addNote(name, true, "%s", reason)
		return nil
	}
	for i, g := range groups {
		where := fmt.Sprintf("%s[%d]", name, i)
		matcher, ok := r.matcher(where, event, g.Matcher)
		if !ok {
			continue
		}
		for j, raw := range g.Hooks {
			if spec, ok := r.hook(fmt.Sprintf("%s.hooks[%d]", where, j), raw); ok {
				spec.Event, spec.Matcher = string(event), matcher
				r.Hooks = append(r.Hooks, spec)
			}
		}
	}
	return nil
}

type hook struct {
	Type      string   `json:"type"`
	Command   string   `json:"command"`
	Args      []string `json:"args"`
	Shell     string   `json:"shell"`
	Timeout   *float64 `json:"timeout"` // seconds
	OnFailure string   `json:"onFailure"`
	If        string   `json:"if"`
	Async     bool     `json:"async"`
	Rewake    bool     `json:"asyncRewake"`
	Once      bool     `json:"once"`
	Status    string   `json:"statusMessage"` // display only: ignored
}

func (r *Result) hook(where string, raw json.RawMessage) (spec manifest.HookSpec, ok bool) {
	var h hook
	if err := json.Unmarshal(raw, &h); err != nil {
		r.addNote(where, true, "cannot be read: %v", err)
		return spec, false
	}
	for key := range rawjson.Members(raw) {
		if !hookKeys[key] {
			r.addNote(where, false, "%q means nothing here", key)
		}
	}
	if reason := h.unsupported(r.options); reason != "" {
		r.addNote(where, true, "%s", reason)
		return spec, false
	}
	if h.Once {
		r.addNote(where, false, "once has no effect: it runs each time")
	}
	spec.Command = h.argv()
	spec.OnError = "allow" // Claude Code ignores failures too
	if h.OnFailure == "block" {
		spec.OnError = "deny"
	}
	if h.Timeout != nil && *h.Timeout > 0 {
		seconds := min(max(*h.Timeout, 0.001), maxTimeout.Seconds())
		spec.Timeout = new(manifest.Duration(seconds * float64(time.Second)))
	} else {
		r.addNote(where, false, "states no timeout: 15 s apply here, and not 10 min")
	}
	return spec, true
}

const maxTimeout = 24 * time.Hour

// hookKeys are the known keys of a hook.
var hookKeys = map[string]bool{
	"type":          true,
	"command":       true,
	"args":          true,
	"shell":         true,
	"timeout":       true,
	"onFailure":     true,
	"if":            true,
	"async":         true,
	"asyncRewake":   true,
	"once":          true,
	"statusMessage": true,
}

// argv returns the command line. Without arguments the command is a line for a shell.
func (h *hook) argv() manifest.Command {
	switch {
	case h.Args != nil:
		return append(manifest.Command{h.Command}, h.Args...)
	case h.Shell == "bash":
		return manifest.Command{"bash", "-c", h.Command}
	}
	return manifest.Command{"sh", "-c", h.Command}
}
