package check

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

var placeholder = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_.-]*)\}$`)

// nearPlaceholder matches a word that contains a placeholder and other text. Only words that are a placeholder are
// replaced.
var nearPlaceholder = regexp.MustCompile(`.\{[A-Za-z_][A-Za-z0-9_]*\}|\{[A-Za-z_][A-Za-z0-9_]*\}.`)

func (s *subject) probePlaceholders(_ context.Context) error {
	var failures, hints []string
	for _, e := range s.entries() {
		shape := shapeOf(e.InputSchema)
		options := true
		for i, word := range s.commandOf(e.Tool) {
			if word == "--" {
				options = false
			}
			if nearPlaceholder.MatchString(word) {
				hints = append(hints, fmt.Sprintf("%s: %q stays as it is: only a whole word is replaced", e.Tool, word))
			}
			m := placeholder.FindStringSubmatch(word)
			if m == nil || i == 0 {
				continue
			}
			switch name := m[1]; {
			case shape.Properties[name] == nil:
				failures = append(failures,
					fmt.Sprintf("%s: the command line needs {%s}, which is no property of the input_schema", e.Tool,
						name))
			case !slices.Contains(shape.Required, name):
				failures = append(failures,
					fmt.Sprintf("%s: the command line needs {%s}; list it as required in the input_schema", e.Tool,
						name))
			case options && e.Validate(optionLike(e.InputSchema, name)) == nil:
				hints = append(hints,
					fmt.Sprintf(
						`%s: a %s that begins with "-" is refused; with "--" before {%s} it would be taken, `+
							"if the command knows that", e.Tool, name, name))
			}
		}
	}
	return verdict(failures, hints)
}

// optionLike returns arguments whose value of name begins with a dash.
func optionLike(schema json.RawMessage, name string) json.RawMessage {
	arguments, _ := exampleOf(schema)
	return rawjson.Set(rawclient.OrEmpty(arguments), name, json.RawMessage(`"-exthost-check"`))
}

// commandOf returns the command line of a tool.
func (s *subject) commandOf(tool string) []string {
	for _, t := range s.spec.Manifest.Tools {
		if t.Name == tool && len(t.Command) > 0 {
			return t.Command
		}
	}
	t := s.spec.Manifest.Transport
	if len(t.Cmd) > 0 || t.Kind != manifest.KindExec {
		return t.Cmd
	}
	return append([]string{t.Command + t.Script}, t.Args...)
}
