package trust

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// TestDesk agrees over the operator's API: an answer holds for what was shown, and for nothing that came later.
func TestDesk(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, filepath.Join(dir, "home"))
	}
	t.Setenv("EXTHOST_TRUST", "")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("extensions/notes/plugin.toml", "[plugin]\nid = \"notes\"\nversion = \"0.1.0\"\n[transport]\n"+
		"command = \"./notes\"\nprotocol = \"lite\"\n[[tools]]\nname = \"go\"\ndescription = \"Runs.\"\n")
	write("extensions/notes/notes", "#!/bin/sh\nexec cat\n")
	write("exthost.yaml", "hooks:\n  - {event: before_tool_call, command: [sh, -c, \"exit 0\"]}\n")
	d := Desk{Console: &console.Console{Out: io.Discard, Err: io.Discard}}
	waits := func(want ...string) map[string]status.Untrusted {
		t.Helper()
		list, err := d.Untrusted(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]status.Untrusted{}
		var names []string
		for _, u := range list {
			names = append(names, u.Names...)
			by[u.Names[0]] = u
		}
		if strings.Join(names, " ") != strings.Join(want, " ") {
			t.Fatalf("%q wait, not %q", names, want)
		}
		return by
	}
	shown := waits(".", "notes")
	if u := shown["notes"]; len(u.Runs) != 1 || !strings.Contains(u.Runs[0], "notes") || u.Files != 2 ||
		u.Reason != "" {
		t.Errorf("%+v", u)
	}
	if u := shown["."]; len(u.Runs) != 1 || !strings.Contains(u.Runs[0], "exit 0") {
		t.Errorf("%+v", u)
	}
	write("extensions/notes/notes", "#!/bin/sh\nexec sh ./more\n")
	for _, digest := range []string{shown["notes"].Digest, "", "sha256:0"} {
		if err := d.Agree(t.Context(), digest); protocol.KindOf(err) != protocol.DescriptorChanged {
			t.Errorf("%q: %v", digest, err)
		}
	}
	if err := d.Agree(t.Context(), waits(".", "notes")["notes"].Digest); err != nil {
		t.Fatal(err)
	}
	if err := d.Agree(t.Context(), waits(".")["."].Digest); err != nil {
		t.Fatal(err)
	}
	waits()
	write("extensions/notes/notes", "#!/bin/sh\nexec sh ./other\n")
	if u := waits("notes")["notes"]; len(u.Changes) != 1 || !strings.Contains(u.Changes[0], "notes") {
		t.Errorf("changes: %q", u.Changes)
	}
	// What the desk changes in a trusted configuration is trusted, and nothing else.
	edit := func() error {
		_, err := config.EditToolset(d.LoadOptions(), config.ToolsetEdit{Name: "talk", New: true})
		write("exthost.yaml", "hooks:\n  - {event: before_tool_call, command: [sh, -c, \"exit 1\"]}\n")
		return err
	}
	if missed, err := d.Edit(t.Context(), edit); err != nil || missed != nil {
		t.Fatal(missed, err)
	}
	waits("notes")
	write("exthost.yaml", "hooks:\n  - {event: before_tool_call, command: [sh, -c, \"exit 2\"]}\n")
	if _, err := d.Edit(t.Context(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	waits(".", "notes")
	t.Setenv("EXTHOST_TRUST", "lock")
	if _, err := d.Untrusted(t.Context()); err == nil || !strings.Contains(err.Error(), "exthost trust --lock") {
		t.Errorf("with a lock file: %v", err)
	}
}
