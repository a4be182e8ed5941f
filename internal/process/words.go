package process

import (
	"errors"
	"fmt"
	"strings"
)

// SplitCommand splits s into words as a shell would: blanks separate, '…'
// quotes everything, "…" all but \ and $, a backslash the next character.
// ${VAR} and ${VAR:-default} stay, for [Expand] to replace them word by word.
//
// Nothing is ever run by a shell. What only a shell can do (pipes, lists,
// redirections, globs, command substitution, $VAR, ~, comments, A=b before the
// command) is an error that says so.
func SplitCommand(s string) ([]string, error) {
	s = strings.TrimLeft(strings.TrimRight(s, "\r\n"), " \t\r\n")
	if strings.ContainsRune(s, 0) {
		return nil, errors.New("the command holds a NUL byte")
	}
	sp := splitter{rest: s}
	for sp.rest != "" {
		if err := sp.step(); err != nil {
			return nil, fmt.Errorf("command %q: %w", s, err)
		}
	}
	sp.endWord()
	if len(sp.words) == 0 {
		return nil, errors.New("the command is empty")
	}
	return sp.words, nil
}

// splitter eats up rest.
type splitter struct {
	rest   string
	words  []string
	word   strings.Builder // the word so far
	inWord bool            // there is one, even if it is empty: ""
	quoted bool            // part of it was quoted
}

// shellOnly is what an unquoted character would ask of a shell.
var shellOnly = map[byte]string{
	'|': "a pipe", '&': "a command list", ';': "a command list", '\n': "a second command",
	'<': "a redirection", '>': "a redirection", '(': "a subshell", ')': "a subshell",
	'`': "a command substitution", '*': "a glob", '?': "a glob", '[': "a glob",
}

// needsShell is the error for what we do not do.
func needsShell(token, what string) error {
	return fmt.Errorf("%q is %s, but no shell runs this command: quote it if it is meant literally, or move it into a script", token, what)
}

// step takes one character, quotation or reference.
func (sp *splitter) step() error {
	c := sp.rest[0]
	switch c {
	case ' ', '\t', '\r':
		sp.endWord()
		sp.rest = sp.rest[1:]
		return nil
	case '\'':
		return sp.singleQuoted()
	case '"':
		return sp.doubleQuoted()
	case '\\':
		return sp.escaped()
	case '$':
		return sp.dollar()
	case '~', '#':
		if !sp.inWord {
			return needsShell(sp.rest[:1], map[byte]string{'~': "a home directory", '#': "a comment"}[c])
		}
	case '=':
		if name := sp.word.String(); len(sp.words) == 0 && !sp.quoted && varName.MatchString(name) {
			return fmt.Errorf("%s=… before the command sets a variable, which only a shell does: put it under env", name)
		}
	}
	if what := shellOnly[c]; what != "" {
		return needsShell(sp.rest[:1], what)
	}
	sp.take(1)
	return nil
}

// take moves n bytes of rest into the word.
func (sp *splitter) take(n int) {
	sp.word.WriteString(sp.rest[:n])
	sp.rest = sp.rest[n:]
	sp.inWord = true
}

func (sp *splitter) endWord() {
	if sp.inWord {
		sp.words = append(sp.words, sp.word.String())
	}
	sp.word.Reset()
	sp.inWord, sp.quoted = false, false
}

func (sp *splitter) singleQuoted() error {
	text, rest, ok := strings.Cut(sp.rest[1:], "'")
	if !ok {
		return errors.New("a ' is never closed")
	}
	sp.word.WriteString(text)
	sp.rest, sp.inWord, sp.quoted = rest, true, true
	return nil
}

func (sp *splitter) doubleQuoted() error {
	sp.rest, sp.inWord, sp.quoted = sp.rest[1:], true, true
	for sp.rest != "" {
		switch {
		case sp.rest[0] == '"':
			sp.rest = sp.rest[1:]
			return nil
		case sp.rest[0] == '`':
			return needsShell("`", shellOnly['`'])
		case sp.rest[0] == '$':
			if err := sp.dollar(); err != nil {
				return err
			}
		case sp.rest[0] == '\\' && len(sp.rest) > 1 && strings.IndexByte("$`\"\\", sp.rest[1]) >= 0:
			sp.rest = sp.rest[1:]
			sp.take(1)
		default:
			sp.take(1)
		}
	}
	return errors.New(`a " is never closed`)
}

func (sp *splitter) escaped() error {
	sp.rest = sp.rest[1:]
	if sp.rest == "" {
		return errors.New(`it ends in a lone \`)
	}
	sp.take(1)
	sp.quoted = true
	return nil
}

// dollar takes a reference whole, its default may hold blanks.
func (sp *splitter) dollar() error {
	next := strings.TrimPrefix(sp.rest, "$")
	switch {
	case strings.HasPrefix(next, "{"):
		end := strings.IndexByte(sp.rest, '}')
		if end < 0 {
			return errors.New("a ${ is never closed")
		}
		sp.take(end + 1)
		return nil
	case strings.HasPrefix(next, "("):
		return needsShell("$(", "a command substitution")
	case next != "" && (varName.MatchString(next[:1]) || strings.IndexByte("0123456789@*#?!-$", next[0]) >= 0):
		return fmt.Errorf("$%s is expanded by a shell only: write ${NAME}, or quote it with ' if it is meant literally", next[:1])
	}
	sp.take(1)
	return nil
}
