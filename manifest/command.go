package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	*c, err = splitWords(string(text))
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

// splitter is the state of splitWords.
type splitter struct {
	words []string
	word  strings.Builder
	open  bool // a word has begun; it may still be empty, as in ""
}

func (s *splitter) add(c byte) { s.word.WriteByte(c); s.open = true }

func (s *splitter) end() {
	if s.open {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.open = false
}

func splitWords(line string) ([]string, error) {
	var s splitter
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ' || c == '\t' || c == '\n':
			s.end()
		case c == '\'' || c == '"':
			n, ok := s.quoted(line[i:])
			if !ok {
				return nil, fmt.Errorf("the quote %c is not closed in %q", c, line)
			}
			i += n
		case c == '\\' && i+1 < len(line):
			i++
			s.add(line[i])
		case c == '$' && strings.HasPrefix(line[i:], "${"):
			s.add(c)
		case strings.IndexByte("|&;<>()$`*?[\\", c) >= 0 || c == '#' && !s.open:
			return nil, fmt.Errorf("%q means something to a shell, and no shell runs %q: quote it, or move the line into a script", c, line)
		case c == '=' && len(s.words) == 0:
			return nil, fmt.Errorf("%q sets a variable before its command: state it in env", line)
		default:
			s.add(c)
		}
	}
	s.end()
	return s.words, nil
}

// quoted takes a quoted part off the front of rest and returns the index of
// its closing quote.
func (s *splitter) quoted(rest string) (n int, ok bool) {
	quote := rest[0]
	s.open = true
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			return i, true
		case c == '\\' && quote == '"' && i+1 < len(rest) && strings.IndexByte("\"\\$`", rest[i+1]) >= 0:
			i++
			s.add(rest[i])
		default:
			s.add(c)
		}
	}
	return 0, false
}
