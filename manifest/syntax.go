package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/exthost/exthost/protocol"
)

// readTOML returns the values of a TOML text, or nil after one diagnostic.
func (s *source) readTOML() map[string]any {
	sc := scanner{src: s.text}
	complete := sc.scan(s.root)
	if sc.limit != "" {
		s.diagnose(protocol.LevelError, CodeTooLarge, sc.pos, "", "%s", sc.limit)
		return nil
	}
	text := s.text
	if !complete { // the parser may see no key that the scanner has not measured
		text = text[:sc.stop()]
	}
	values, err := parseTOML(text)
	if err == nil && complete {
		return values
	}
	if perr := (toml.ParseError{}); errors.As(err, &perr) {
		s.errorAt(s.offset(perr.Position), "", "%s", lowerFirst(perr.Message))
	} else {
		s.errorAt(sc.pos, "", "this is not TOML")
	}
	return nil
}

// stop returns where to cut the text so that the parser trips over what stopped
// the scanner and sees little beyond it.
func (s *scanner) stop() int {
	rest := s.src[s.pos:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i+1]
	}
	return s.pos + len(strings.ToValidUTF8(rest[:min(len(rest), 128)], ""))
}

// parseTOML turns the parser's panics on odd input into errors.
func parseTOML(text string) (values map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("toml: %v", r)
		}
	}()
	var v any // unlike a map, it takes the parser's tables as they are
	_, err = toml.Decode(text, &v)
	values, _ = v.(map[string]any)
	return values, err
}

// offset turns the parser's position into an offset. Its line is right also
// where its byte offset has run on to the next one.
func (s *source) offset(p toml.Position) int {
	line := min(max(p.Line, 1), len(s.lines))
	end := len(s.text)
	if line < len(s.lines) {
		end = s.lines[line] - 1
	}
	return min(max(p.Start, s.lines[line-1]), end)
}

func lowerFirst(s string) string {
	if s == "" || len(s) > 1 && 'A' <= s[1] && s[1] <= 'Z' {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
