package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Limits above which a probe complains.
const (
	maxDescription = 1024 // runes; the lowest limit of all vendors
	maxStart       = time.Second
)

// aboutTools reports whether d is about the extension's tools or hooks.
func aboutTools(d protocol.Diagnostic) bool {
	return strings.HasPrefix(d.Code, "tool_") || strings.HasPrefix(d.Code, "capability_") ||
		d.Code == string(protocol.SpawnFailed) && d.Level == protocol.LevelWarn // about one tool's command
}

// aboutStart reports whether d is about a failed start.
func aboutStart(d protocol.Diagnostic) bool {
	kind := protocol.Kind(d.Code)
	return slices.Contains(protocol.Kinds(), kind) && kind != protocol.ManifestInvalid && kind != protocol.ConfigInvalid
}

func (s *subject) probeManifest(_ context.Context) error {
	var failures, hints []string
	for _, d := range s.diagnostics() {
		switch {
		case aboutTools(d), aboutStart(d): // reported by another probe
		case d.Level == protocol.LevelInfo:
			hints = append(hints, d.String())
		default:
			failures = append(failures, d.String())
		}
	}
	if s.status.Description == "" && !strings.Contains(s.status.ID, ".") {
		hints = append(hints, "[plugin] has no description, by which an operator chooses")
	}
	return verdict(failures, hints)
}

func (s *subject) probeStart(ctx context.Context) error {
	err := s.checkStart(ctx)
	if outcome, _ := outcomeOf(err); outcome == Fail {
		s.skipRest = skipf("it could not be started")
	}
	return err
}

func (s *subject) checkStart(ctx context.Context) error {
	s.answered = time.Now()
	if s.status.State != string(supervisor.Ready) && s.status.State != string(supervisor.Idle) {
		text := s.status.State + ": " + s.status.Reason
		if s.status.LastCrash != nil && s.status.LastCrash.Evidence != nil {
			for _, line := range s.status.LastCrash.Evidence.Stderr {
				text += "\nstderr: " + line
			}
		}
		return errors.New(text)
	}
	if s.protocol == manifest.KindExec {
		return nil
	}
	began := time.Now()
	if _, err := s.client(ctx); err != nil {
		return err
	}
	if took := time.Since(began); took > maxStart && !s.spec.Manifest.Transport.Downloads() {
		return hintf("it takes %v to be ready; what is loaded on the first call costs nobody at the start",
			took.Round(time.Millisecond))
	}
	return passf("ready after %v", time.Since(began).Round(time.Millisecond))
}

func (s *subject) probeOffer(_ context.Context) error {
	var failures []string
	for _, d := range s.diagnostics() {
		if aboutTools(d) && d.Level != protocol.LevelInfo {
			failures = append(failures, d.String())
		}
	}
	if err := issues(Fail, failures); err != nil {
		return err
	}
	if len(s.entries()) == 0 && len(s.status.Hooks) == 0 {
		return hintf("it offers no tool and no hook")
	}
	return passf("tools: %s", strings.Join(s.names(), ", "))
}

func (s *subject) probeNames(_ context.Context) error {
	var hints []string
	for _, e := range s.entries() {
		if !strings.HasSuffix(e.Name, "_"+strings.ReplaceAll(e.Tool, ".", "_")) {
			hints = append(hints,
				fmt.Sprintf("%s is registered as %s: a shorter name of A-Z a-z 0-9 _ - would not be changed", e.Tool,
					e.Name))
		}
	}
	return issues(Hint, hints)
}

func (s *subject) probeDescriptions(_ context.Context) error {
	var failures, hints []string
	for _, e := range s.entries() {
		own := strings.TrimSpace(strings.TrimPrefix(e.Description, "[ext:"+s.status.ID+"]"))
		switch n := utf8.RuneCountInString(e.Description); {
		case own == "":
			failures = append(failures, e.Tool+" has no description: a model cannot know when to call it")
		case n > maxDescription:
			failures = append(failures,
				fmt.Sprintf("that of %s has %d characters, vendors refuse more than %d", e.Tool, n, maxDescription))
		case utf8.RuneCountInString(own) < 15:
			hints = append(hints,
				fmt.Sprintf("%q is little to know of %s: say what it does and when to use it", own, e.Tool))
		}
	}
	return verdict(failures, hints)
}

func (s *subject) probeParameters(_ context.Context) error {
	var hints []string
	for _, e := range s.entries() {
		properties := shapeOf(e.InputSchema).Properties
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if text, _ := rawjson.Text(rawjson.Get(properties[name], "description")); strings.TrimSpace(text) == "" {
				hints = append(hints, fmt.Sprintf("%s: say what %s is for", e.Tool, name))
			}
		}
	}
	return issues(Hint, hints)
}

func (s *subject) probeSchemas(_ context.Context) error {
	var failures, hints []string
	for _, d := range s.diagnostics() { // the host drops such a tool, or takes it without its schema
		if strings.HasPrefix(d.Code, "tool_schema_") {
			failures = append(failures, d.Message)
		}
	}
	for _, e := range s.entries() {
		shape := shapeOf(e.InputSchema)
		for _, name := range shape.Required {
			if shape.Properties[name] == nil && shape.Properties != nil {
				failures = append(failures,
					fmt.Sprintf("%s requires %s, which is none of its properties", e.Tool, name))
			}
		}
		if example, ok := exampleOf(e.InputSchema); ok {
			if err := e.Validate(example); err != nil {
				failures = append(failures,
					fmt.Sprintf("%s: the examples and defaults of its schema do not fit it: %v", e.Tool, err))
			}
		}
		if len(shape.Properties) == 0 && rawjson.Get(e.InputSchema, "additionalProperties") == nil &&
			s.protocol != manifest.ProtocolMCP {
			hints = append(hints,
				e.Tool+` takes anything: a schema without properties says so better with "additionalProperties": false`)
		}
	}
	return verdict(failures, hints)
}

func (s *subject) probeVendors(_ context.Context) error {
	var failures []string
	for _, f := range tools.Formats() {
		_, omitted := tools.Export(f, s.entries())
		for _, o := range omitted {
			failures = append(failures, fmt.Sprintf("%s does not take %s: %s", f, o.Tool, o.Reason))
		}
	}
	return issues(Fail, failures)
}

// annotations are the annotations of MCP; true means that the value is a boolean.
var annotations = map[string]bool{
	"title":           false,
	"readOnlyHint":    true,
	"destructiveHint": true,
	"idempotentHint":  true,
	"openWorldHint":   true,
}

func (s *subject) probeAnnotations(_ context.Context) error {
	var failures, hints []string
	for _, e := range s.entries() {
		for name, value := range rawjson.Members(e.Annotations) {
			boolean, known := annotations[name]
			switch text := string(value); {
			case !known:
				hints = append(hints, fmt.Sprintf("%s: nobody knows the annotation %s", e.Tool, name))
			case boolean && text != "true" && text != "false":
				failures = append(failures,
					fmt.Sprintf("%s: %s is %s, and neither true nor false", e.Tool, name, cut(text)))
			}
		}
		says := func(hint string) bool { return string(rawjson.Get(e.Annotations, hint)) == "true" }
		if says("readOnlyHint") && says("destructiveHint") {
			failures = append(failures, e.Tool+" says that it only reads and that it destroys")
		}
		if rawjson.Get(e.Annotations, "readOnlyHint") == nil && rawjson.Get(e.Annotations, "destructiveHint") == nil {
			hints = append(hints,
				e.Tool+" does not say whether it only reads (readOnlyHint): clients ask before each call")
		}
	}
	return verdict(failures, hints)
}
