package process

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"unicode"

	"github.com/exthost/exthost/internal/text/display"
)

// levelTrace is below the lowest level of slog.
const levelTrace = slog.LevelDebug - 4

// prefixLevels are the levels of lines that start with "E! ", "W! " and so on.
var prefixLevels = map[byte]slog.Level{
	'E': slog.LevelError,
	'W': slog.LevelWarn,
	'I': slog.LevelInfo,
	'D': slog.LevelDebug,
	'T': levelTrace,
}

var namedLevels = map[string]slog.Level{
	"trace": levelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "notice": slog.LevelInfo,
	"warn": slog.LevelWarn, "warning": slog.LevelWarn, "error": slog.LevelError, "err": slog.LevelError,
	"critical": slog.LevelError, "fatal": slog.LevelError, "panic": slog.LevelError,
}

// parseLine determines the level of a line: warning, unless the line states one.
func parseLine(line []byte, truncated bool) Line {
	l := Line{Level: slog.LevelWarn, Truncated: truncated}
	if len(line) >= 2 && line[1] == '!' && (len(line) == 2 || line[2] == ' ') {
		if level, ok := prefixLevels[line[0]]; ok {
			l.Level = level
			line = bytes.TrimLeft(line[2:], " ")
		}
	} else if level, ok := jsonLevel(line); ok {
		l.Level = level
	} else if level, ok := logfmtLevel(line); ok {
		l.Level = level
	}
	l.Text = display.Escape(string(line))
	return l
}

// jsonLevel reads the member "level" of a JSON line: a name, or a number as in pino and bunyan (30 is info).
func jsonLevel(line []byte) (slog.Level, bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return 0, false
	}
	var v struct {
		Level any `json:"level"`
	}
	if json.Unmarshal(line, &v) != nil {
		return 0, false
	}
	switch level := v.Level.(type) {
	case string:
		l, ok := namedLevels[strings.ToLower(level)]
		return l, ok
	case float64:
		return numberedLevel(level), true
	}
	return 0, false
}

func numberedLevel(n float64) slog.Level {
	switch {
	case n < 20:
		return levelTrace
	case n < 30:
		return slog.LevelDebug
	case n < 40:
		return slog.LevelInfo
	case n < 50:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// logfmtLevel reads the first level=NAME of a line.
func logfmtLevel(line []byte) (slog.Level, bool) {
	const key = "level="
	i := bytes.Index(line, []byte(key))
	if i < 0 || i > 0 && line[i-1] != ' ' && line[i-1] != '\t' {
		return 0, false
	}
	name := bytes.TrimLeft(line[i+len(key):], `"`)
	if end := bytes.IndexFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }); end >= 0 {
		name = name[:end]
	}
	l, ok := namedLevels[strings.ToLower(string(name))]
	return l, ok
}
