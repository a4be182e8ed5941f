package dev

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
)

const helloManifest = `[plugin]
id = "hello"
version = "0.1.0"
[transport]
script = "main.sh"
protocol = "lite"
[[tools]]
name = "hello"
input_schema = { type = "object", properties = { name = { type = "string" }, loud = { type = "boolean" }, tone = { enum = ["warm", "cold"] } } }
`

// The tab key, in a session whose only tool is from helloManifest.
func TestTabCompletesToolsAndArguments(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(helloManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	h, err := exthost.Open(context.Background(), cfg,
		exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var shown bytes.Buffer
	p := newPrompt(nil, &screen{out: &shown}, dir)
	p.host = h
	for _, tt := range []struct{ line, want, shown string }{
		{"hell", "hello ", ""},
		{"he", "hel", ""},
		{"hel", "hel", "hello  help\n"},
		{"", "", "hello  help  tools  status  reload  restart  wire  quit\n"},
		{"qu", "quit ", ""},
		{"nothing", "nothing", ""},
		{"hello ", "hello ", "loud=  name=  tone=\n"},
		{"hello n", "hello name=", ""},
		{"hello name=x ", "hello name=x ", "loud=  tone=\n"},
		{"hello tone=w", "hello tone=warm ", ""},
		{"hello tone=", "hello tone=", "tone=warm  tone=cold\n"},
		{"hello loud=f", "hello loud=false ", ""},
		{"bye n", "bye n", ""},
	} {
		shown.Reset()
		got, pos, ok := p.complete(tt.line, len(tt.line), '\t')
		if !ok || got != tt.want || pos != len(tt.want) || shown.String() != tt.shown {
			t.Errorf("%q: %q at %d, %v, and %q; want %q and %q", tt.line, got, pos, ok, shown.String(), tt.want,
				tt.shown)
		}
	}
	if got, pos, ok := p.complete("hell name=x", 4, '\t'); !ok || got != "hello  name=x" || pos != 6 {
		t.Errorf("in the middle: %q at %d", got, pos)
	}
	if _, _, ok := p.complete("hell", 4, 'x'); ok {
		t.Error("a letter completes")
	}
}
