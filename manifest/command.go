package manifest

import (
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/shellwords"
)

// Command is a command line in words. Files write it as an array, or as one
// string that is split into words as a shell would split it, though no shell
// ever runs it: what only a shell could do (pipes, redirections, globs,
// substitutions, A=b before the command) is an error unless quoted. ${VAR}
// stays as it is.
type Command []string

var errCommand = errors.New("want one string or an array of strings")

// UnmarshalText splits the string form.
func (c *Command) UnmarshalText(text []byte) (err error) {
	*c, err = shellwords.Command(string(text))
	return err
}

// UnmarshalJSON reads an array of strings or one string.
func (c *Command) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return c.UnmarshalTOML(v)
}

// UnmarshalTOML reads an array of strings or one string.
func (c *Command) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		return c.UnmarshalText([]byte(v))
	case []any:
		words := make(Command, 0, len(v))
		for _, w := range v {
			s, ok := w.(string)
			if !ok {
				return errCommand
			}
			words = append(words, s)
		}
		*c = words
		return nil
	}
	return errCommand
}
