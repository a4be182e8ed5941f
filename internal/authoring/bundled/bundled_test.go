package bundled_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/authoring/bundled"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// The test binary replaces the program exthost, which the manifests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "extension" {
		code, err := bundled.Run(os.Args[2])
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func options(t *testing.T, state string) exthost.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: state, Self: self}
}

func open(t *testing.T, state string) *exthost.Host {
	t.Helper()
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{filepath.Join("..", "..", "..", "extensions")}
	h, err := exthost.Open(context.Background(), cfg, options(t, state))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, d := range h.Status().Diagnostics {
		if d.Level == protocol.LevelError ||
			d.Level == protocol.LevelWarn && d.Code != string(protocol.RequirementMissing) {
			t.Error(d)
		}
	}
	return h
}

func call(t *testing.T, h *exthost.Host, tool, args string) protocol.ToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := h.Call(ctx, tool, json.RawMessage(args))
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, args, err)
	}
	return result
}

func TestBundledExtensions(t *testing.T) {
	processtest.Leaks(t)
	h := open(t, t.TempDir())
	for _, tt := range []struct {
		needs, tool, args, want string
		isError                 bool
	}{
		{"", "ext_notes_add", `{"text":"buy milk","tags":["errand"]}`, `"text":"buy milk"`, false},
		{"", "ext_notes_search", `{"query":"ERRAND milk"}`, `"total":1`, false},
		{"", "ext_notes_search", `{"query":"bread"}`, `"notes":[],"total":0`, false},
		{"", "ext_notes_delete", `{"id":1}`, "Forgot note 1.", false},
		{"", "ext_notes_delete", `{"id":1}`, "no note 1", false},
		// without uptime the whole extension system is skipped
		{"uptime", "ext_system_disk_free", `{"path":"/"}`, "Available", false},
		{"uptime", "ext_system_kernel", `{}`, "", false},
		{"python3", "ext_echo_echo", `{"text":"żółw"}`, "żółw", false},
		{"python3", "ext_echo_ping", `{}`, "pong", false},
		{"python3", "ext_calc_calculate", `{"expression":"2**200 + 1"}`,
			"1606938044258990275541962092341162602522202993782792835301377", false},
		{"python3", "ext_calc_calculate", `{"expression":"1/3 + 0.1"}`, "13/30 = 0.433333333333333", false},
		{"python3", "ext_calc_calculate", `{"expression":"sqrt(16/9)"}`, "4/3 = 1.33333333333333", false},
		{"python3", "ext_calc_calculate", `{"expression":"9**9**9"}`, "too large", true},
		{"python3", "ext_calc_calculate", `{"expression":"2**-100000"}`, "too large", true},
		{"python3", "ext_calc_calculate", `{"expression":"__import__('os').getcwd()"}`, "understood", true},
		{"python3", "ext_calc_calculate", `{"expression":"1/0"}`, "ZeroDivisionError", true},
		{"node", "ext_units_convert_convert", `{"value":-40,"from":"F","to":"C"}`, "-40 F = -40 C", false},
		{"node", "ext_units_convert_convert", `{"value":1,"from":"kg","to":"m"}`, "kg is mass, m is length", true},
	} {
		if tt.needs != "" {
			if _, err := exec.LookPath(tt.needs); err != nil {
				t.Logf("SKIP %s: %s is not installed", tt.tool, tt.needs)
				continue
			}
		}
		got := call(t, h, tt.tool, tt.args)
		if all := got.Text() + string(got.Structured()); !strings.Contains(all, tt.want) ||
			got.IsError() != tt.isError {
			t.Errorf("%s(%s) = %s; want %q", tt.tool, tt.args, got, tt.want)
		}
	}
}

func TestNotesSurviveAndDoNotGetLost(t *testing.T) {
	state := t.TempDir()
	h := open(t, state)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := h.Call(context.Background(), "ext_notes_add", json.RawMessage(`{"text":"x"}`)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	got := call(t, open(t, state), "ext_notes_search", `{"limit":1}`)
	if !strings.Contains(string(got.Structured()), `"total":50`) {
		t.Errorf("after a restart: %s", got)
	}
	left, err := filepath.Glob(filepath.Join(state, "notes", ".notes-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v, %v", left, err)
	}
}

func TestDamagedNotesAreNamedAndKept(t *testing.T) {
	state := t.TempDir()
	path := filepath.Join(state, "notes", "notes.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{filepath.Join("..", "..", "..", "extensions", "notes")}
	h, err := exthost.Open(context.Background(), cfg, options(t, state))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if s := h.Status().Extensions; len(s) != 1 || s[0].State != "failed" ||
		!strings.Contains(s[0].Reason, "notes.json is damaged") {
		t.Errorf("status: %+v", s)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "{" {
		t.Errorf("the damaged file became %q, %v", data, err)
	}
}
