package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/sdk"
)

var errSize = errors.New("an answer of the wrong size")

// extension returns an extension with the echo tool.
func extension() *sdk.Extension {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "echo", Description: "Returns the text."},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return in.Text, nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "write", Description: "Returns a text as long as it is asked to be."},
		func(_ context.Context, in struct {
			Size int    `json:"size"`
			Text string `json:"text"`
		}) (string, error) {
			return strings.Repeat("x", in.Size), nil
		})
	return x
}

const manifest = `[plugin]
id = "bench"
version = "1.0.0"
[transport]
command = %q
env = { %s = "extension" }
[capabilities]
tools = ["echo", "write"]
`

// governed is the configuration of a host with policies that people use, none of which refuses a call.
func governed(tb testing.TB) *config.Config {
	cfg := config.Default()
	cfg.Audit.Path = filepath.Join(tb.TempDir(), "audit.jsonl")
	cfg.Plugins = []governance.Spec{
		{Name: "who", Category: governance.Authorization, Builtin: "access", Config: map[string]any{
			"rules": []any{map[string]any{"effect": "deny", "tools": []any{"ext_*_delete"}}},
		}},
		{Name: "not too often", Category: governance.RateLimiting, Builtin: "rate_limit", Config: map[string]any{
			"limits": []any{map[string]any{"calls": 1 << 40, "window": "1h"}},
		}},
		{Name: "secrets", Category: governance.Content, Builtin: "redact"},
	}
	return cfg
}

// hostCall returns a function that makes the load's call by a host with this configuration.
func hostCall(tb testing.TB, l benchtest.Load, cfg *config.Config) func() error {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	cfg.Extensions.SearchPaths = []string{dir}
	path := filepath.Join(dir, "bench", "plugin.toml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, manifest, exe, processtest.ScriptVar), 0o600); err != nil {
		tb.Fatal(err)
	}
	h, err := exthost.Open(tb.Context(), cfg,
		exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := h.Ready(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	// made once, as the request of each other way
	tool, args := "ext_bench_echo", json.RawMessage(fmt.Appendf(nil, `{"text":%s}`, benchtest.Text(l.Up)))
	if l.Up != l.Down {
		tool, args = "ext_bench_write", fmt.Appendf(nil, `{"size":%d,"text":%s}`, l.Down, benchtest.Text(l.Up))
	}
	return func() error {
		r, err := h.Call(tb.Context(), tool, args)
		if err == nil && len(r) < l.Down {
			err = errSize
		}
		return err
	}
}
