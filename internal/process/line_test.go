package process

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseLineLevels(t *testing.T) {
	const trace = slog.LevelDebug - 4
	for _, tt := range []struct {
		line  string
		level slog.Level
		text  string // default: the line
	}{
		{"E! disk full", slog.LevelError, "disk full"},
		{"W! disk filling", slog.LevelWarn, "disk filling"},
		{"I!  started", slog.LevelInfo, "started"},
		{"D! x", slog.LevelDebug, "x"},
		{"T! x", trace, "x"},
		{"E!", slog.LevelError, "\x00"},
		{"E!x", slog.LevelWarn, ""},
		{"X! x", slog.LevelWarn, ""},
		{"plain", slog.LevelWarn, ""},
		{"level=info msg=x", slog.LevelInfo, ""},
		{`time=1 level=ERROR msg="a"`, slog.LevelError, ""},
		{`ts=1 level="debug" x`, slog.LevelDebug, ""},
		{"level=loud", slog.LevelWarn, ""},
		{"sublevel=info", slog.LevelWarn, ""},
		{`{"level":"info","msg":"x"}`, slog.LevelInfo, ""},
		{`{"msg":"x","level":"fatal"}`, slog.LevelError, ""},
		{`{"level":30,"msg":"x"}`, slog.LevelInfo, ""},
		{`{"level":60}`, slog.LevelError, ""},
		{`{"level":10}`, trace, ""},
		{`{"level":null}`, slog.LevelWarn, ""},
		{`{"level":"info"`, slog.LevelWarn, ""},
		{`{"level":{}} level=info`, slog.LevelInfo, ""},
	} {
		want := tt.text
		switch want {
		case "":
			want = tt.line
		case "\x00":
			want = ""
		}
		if got := parseLine([]byte(tt.line), false); got.Level != tt.level || got.Text != want {
			t.Errorf("%q: %v %q, want %v %q", tt.line, got.Level, got.Text, tt.level, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"plain\ttext ü 日本 😀":        "plain\ttext ü 日本 😀",
		"\x1b[31mred\x1b[0m":        `\x1b[31mred\x1b[0m`,
		"a\r\nb\x00\x7f":            `a\x0d\x0ab\x00\x7f`,
		"\u0085\u009b31m":           `\u0085\u009b31m`,
		"\u202eevil\u2066\u200b":    `\u202eevil\u2066\u200b`,
		"\u2028\ufeff":              `\u2028\ufeff`,
		"\U000e0041":                `\U000e0041`,
		"\xff\xfe ok":               `\xff\xfe ok`,
		"no\u00a0break ideo\u3000g": "no\u00a0break ideo\u3000g",
	} {
		if got := Escape(s); got != want {
			t.Errorf("Escape(%q) = %q, want %q", s, got, want)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte("E! x"))
	f.Add([]byte(`{"level":"info"}`))
	f.Add([]byte("level=\xff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		text := parseLine(line, false).Text
		if !utf8.ValidString(text) || strings.IndexFunc(text, unsafeRune) >= 0 {
			t.Errorf("%q became %q", line, text)
		}
	})
}
