package text

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ShellWords splits a line into words as a shell does, at unquoted blanks, without running or expanding anything. A
// backslash takes the next character literally, except in single quotes. An open quote or trailing backslash is an
// error.
func ShellWords(line string) ([]string, error) { return split(line, false) }

// CommandWords is ShellWords for a command line that no shell will run: unquoted characters that need a shell (pipes,
// redirections, globs, substitutions, a leading A=b) are an error. ${ is literal. In double quotes a backslash
// escapes only ", \, $ and ` (POSIX).
func CommandWords(line string) ([]string, error) { return split(line, true) }

var errOpen = errors.New("the line ends inside a quote")

// splitter holds the words so far.
type splitter struct {
	words   []string
	word    strings.Builder
	open    bool // a word has begun; it may be empty, as in ""
	command bool
}

// WholeLine splits a command that is a whole line: it has blanks, args is empty, and it is not the path of a program.
// ok is false for other commands.
func WholeLine(command string, args []string) (words []string, ok bool) {
	if len(args) > 0 || !strings.ContainsAny(strings.TrimSpace(command), " \t") || filepath.IsAbs(command) {
		return nil, false
	}
	words, err := ShellWords(command)
	return words, err == nil && len(words) > 1
}

// ShellLine writes argv as a line that a shell splits into the same words.
func ShellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}

func split(line string, command bool) ([]string, error) {
	s := splitter{command: command}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case strings.IndexByte(" \t\n", c) >= 0:
			s.end()
		case c == '\'' || c == '"':
			n, ok := s.quoted(line[i:])
			if !ok {
				return nil, s.unclosed(c, line)
			}
			i += n
		case c == '\\' && i+1 < len(line):
			i++
			s.add(line[i])
		case command && s.shells(line[i:]):
			return nil, fmt.Errorf("%q means something to a shell, and no shell runs %q: quote it, or move the line "+
				"into a script", c, line)
		case command && c == '=' && len(s.words) == 0:
			return nil, fmt.Errorf("%q sets a variable before its command: state it in env", line)
		case c == '\\':
			return nil, errOpen
		default:
			s.add(c)
		}
	}
	s.end()
	return s.words, nil
}

func (s *splitter) unclosed(quote byte, line string) error {
	if s.command {
		return fmt.Errorf("the quote %c is not closed in %q", quote, line)
	}
	return errOpen
}

// shells reports whether rest begins with a character that is special to a shell.
func (s *splitter) shells(rest string) bool {
	return strings.IndexByte("|&;<>()$`*?[\\", rest[0]) >= 0 && !strings.HasPrefix(rest, "${") ||
		rest[0] == '#' && !s.open
}

func (s *splitter) add(c byte) { s.word.WriteByte(c); s.open = true }

func (s *splitter) end() {
	if s.open {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.open = false
}

// quoted reads a quoted part from the front of rest and returns the index of its closing quote.
func (s *splitter) quoted(rest string) (n int, ok bool) {
	quote := rest[0]
	s.open = true
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			return i, true
		case c == '\\' && quote == '"' && i+1 < len(rest) &&
			(!s.command || strings.IndexByte("\"\\$`", rest[i+1]) >= 0):
			i++
			s.add(rest[i])
		default:
			s.add(c)
		}
	}
	return 0, false
}
