package process

import (
	"log/slog"
	"testing"

	"github.com/exthost/exthost/internal/text/display"
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

func FuzzParseLine(f *testing.F) {
	f.Add([]byte("E! x"))
	f.Add([]byte(`{"level":"info"}`))
	f.Add([]byte("level=\xff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		text := parseLine(line, false).Text
		if display.Escape(text) != text {
			t.Errorf("%q became %q", line, text)
		}
	})
}
