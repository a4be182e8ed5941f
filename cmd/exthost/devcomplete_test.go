package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
)

// The tab key, on a session whose one tool is that of scriptManifest.
func TestComplete(t *testing.T) {
	dir := project(t, map[string]string{"x/plugin.toml": scriptManifest, "x/main.sh": scriptSaying("one")})
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{filepath.Join(dir, "x")}
	h, err := exthost.Open(context.Background(), cfg, exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var shown bytes.Buffer
	d := &dev{app: &app{out: io.Discard, err: io.Discard}, host: h, out: &shown}
	for _, tt := range []struct{ line, want, shown string }{
		{"hell", "hello ", ""},
		{"he", "hel", ""},
		{"hel", "hel", "hello  help\n"},
		{"", "", "hello  help  tools  info  reload  restart  tap  quit\n"},
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
		got, pos, ok := d.complete(tt.line, len(tt.line), '\t')
		if !ok || got != tt.want || pos != len(tt.want) || shown.String() != tt.shown {
			t.Errorf("%q: %q at %d, %v, and %q; want %q and %q", tt.line, got, pos, ok, shown.String(), tt.want, tt.shown)
		}
	}
	if got, pos, ok := d.complete("hell name=x", 4, '\t'); !ok || got != "hello  name=x" || pos != 6 {
		t.Errorf("in the middle: %q at %d", got, pos)
	}
	if _, _, ok := d.complete("hell", 4, 'x'); ok {
		t.Error("a letter completes")
	}
}
