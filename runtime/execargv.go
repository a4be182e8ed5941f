package runtime

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// template is a command line whose words may be {placeholders}.
type template struct {
	argv []string
	uses bool // it has placeholders, so the arguments are not passed on stdin
}

var placeholder = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z0-9_.-]*\}$`)

func newTemplate(argv []string) *template {
	t := &template{argv: argv}
	for _, word := range argv[min(1, len(argv)):] {
		t.uses = t.uses || placeholder.MatchString(word)
	}
	return t
}

// fill returns the command line of a call and its stdin: the arguments as one line of JSON, or nothing if the command
// line has placeholders.
func (t *template) fill(args json.RawMessage) (argv []string, stdin []byte, fault *protocol.Error) {
	if !t.uses {
		return t.argv, append(args[:len(args):len(args)], '\n'), nil
	}
	argv = make([]string, 0, len(t.argv))
	options := true // a leading "-" makes a word an option
	for i, word := range t.argv {
		if word == "--" {
			options = false
		}
		if i > 0 && placeholder.MatchString(word) {
			name := word[1 : len(word)-1]
			if word, fault = argument(args, name, options); fault != nil {
				return nil, nil, fault
			}
		}
		argv = append(argv, word)
	}
	return argv, nil, nil
}

// argument returns one argument as a word of a command line: the text of a string, the JSON of any other value.
func argument(args json.RawMessage, name string, options bool) (string, *protocol.Error) {
	value := rawjson.Get(args, name)
	if value == nil || string(value) == "null" {
		return "", protocol.Errorf(protocol.InvalidArguments, "argument %q is missing: the command line needs it", name)
	}
	word := string(value)
	if value[0] == '"' {
		_ = json.Unmarshal(value, &word) // params are already known to be valid
	}
	switch {
	case strings.ContainsRune(word, 0):
		return "", protocol.Errorf(protocol.InvalidArguments,
			"argument %q holds a NUL character, which no command line can", name)
	case options && strings.HasPrefix(word, "-"):
		return "", protocol.Errorf(protocol.InvalidArguments,
			`argument %q begins with "-" and would be read as an option`, name)
	}
	return word, nil
}
