package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// A tool with tag characters in its descriptor is neither listed nor callable until the operator
// accepts exactly that descriptor. Other invisible characters are a warning.
func TestHiddenTextIsHeld(t *testing.T) {
	processtest.Leaks(t)
	f, state := lazyFolder(t, ""), t.TempDir()
	const hidden = "\U000e0041"
	f.Write("x/tools.json", `[{"name":"greet","input_schema":{"type":"object","properties":{"note":{"type":"string","enum":["a`+hidden+`"]}}}}, {"name":"part","title":"P\u202e","input_schema":{"type":"object"}}]`)
	h := f.OpenWith(f.Config(), exthost.Options{StateDir: state})
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_part", nil); err != nil {
		t.Fatal(err)
	}
	held := func() {
		t.Helper()
		if slices.Contains(hosttest.Names(h), "ext_x_greet") || !slices.Contains(hosttest.Names(h), "ext_x_part") {
			t.Errorf("tools: %q", hosttest.Names(h))
		}
		_, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil)
		if protocol.KindOf(err) != protocol.DescriptorChanged ||
			!strings.Contains(err.Error(), "exthost tools accept x greet") {
			t.Errorf("a held tool answers: %v", err)
		}
	}
	held()
	for _, want := range []string{
		"hidden_text_held",
		"U+E0041 at /input_schema/properties/note/enum/0",
		"U+202E at /title",
	} {
		if text := diagnosticsOf(h); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if err := acceptAll(h, status.Selection{Extension: "x"}, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time after a restart
		if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil); err != nil ||
			!slices.Contains(hosttest.Names(h), "ext_x_greet") {
			t.Errorf("accepted: %v, tools %q", err, hosttest.Names(h))
		}
		h.Close()
		h = f.OpenWith(f.Config(), exthost.Options{StateDir: state})
	}
	f.Write("x/tools.json", `[{"name":"greet","description":"another `+hidden+`"}, {"name":"part"}]`)
	if err := h.Admin().Restart(hosttest.Deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	hosttest.Eventually(t, "another text is held",
		func() bool { return !slices.Contains(hosttest.Names(h), "ext_x_greet") })
	held()
}

// The same for a destination, which answers lists itself.
func TestHiddenTextOfADestination(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Write("listing.sh", listing)
	f.Write("tools.json", "[{\"name\":\"greet\",\"description\":\"\U000e0041\",\"inputSchema\":{\"type\":\"object\"}},"+
		"{\"name\":\"part\",\"title\":\"P\u202e\",\"inputSchema\":{\"type\":\"object\"}}]")
	cfg := f.Config()
	cfg.Destinations = config.Destinations{
		"d": {
			Type:         config.DestinationStdio,
			Command:      manifest.Command{"sh", "listing.sh"},
			Cwd:          f.Dir,
			Instances:    manifest.InstancesPerSession,
			StartTimeout: manifest.Duration(hosttest.Patience),
		},
	}
	h := f.OpenWith(cfg, exthost.Options{})
	ask := func(session, method, params string) (string, error) {
		s := &protocol.Session{ID: session, Extension: "d", Version: protocol.MCP20251125}
		raw, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{Session: s, Extension: "d", Method: method, Params: json.RawMessage(params)})
		return string(raw), err
	}
	if list, err := ask("a", "tools/list", `{}`); err != nil || strings.Contains(list, "greet") ||
		!strings.Contains(list, "part") {
		t.Errorf("listed: %s, %v", list, err)
	}
	if _, err := ask("b", "tools/call", `{"name":"greet"}`); protocol.KindOf(err) != protocol.DescriptorChanged {
		t.Errorf("called: %v", err)
	}
	hosttest.Eventually(t, "both are told", func() bool {
		text := diagnosticsOf(h)
		return strings.Contains(text, "hidden_text_held") && strings.Contains(text, "U+202E at /title")
	})
	client := hosttest.NewRecorder()
	err := h.Attach(hosttest.Deadline(t),
		&protocol.Session{ID: "c", Extension: "d", Client: client, Version: protocol.MCP20251125})
	if err != nil {
		t.Fatal(err)
	}
	if err := acceptAll(h, status.Selection{Extension: "d", Label: "greet"}, "ada"); err != nil {
		t.Fatal(err)
	}
	hosttest.Eventually(t, "the client is told",
		func() bool { return slices.Equal(client.Told(), []string{protocol.MethodToolsListChanged + " "}) })
	if _, err := ask("b", "tools/call", `{"name":"greet"}`); err != nil {
		t.Error(err)
	}
}

// If an acceptance cannot be stored, the item is listed until the host ends, and the error says
// so.
func TestAcceptedAndNotStored(t *testing.T) {
	processtest.Leaks(t)
	f, state := lazyFolder(t, ""), t.TempDir()
	f.Write("x/tools.json", "[{\"name\":\"greet\",\"description\":\"\U000e0041\"}]")
	if err := os.MkdirAll(filepath.Join(state, ".hidden.json", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := f.OpenWith(f.Config(), exthost.Options{StateDir: state})
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil); protocol.KindOf(err) != protocol.DescriptorChanged {
		t.Fatal(err)
	}
	if err := acceptAll(h, status.Selection{Extension: "x"}, "ada"); protocol.KindOf(err) != protocol.ConfigInvalid {
		t.Errorf("accepted: %v", err)
	}
	if !slices.Contains(hosttest.Names(h), "ext_x_greet") {
		t.Errorf("tools: %q", hosttest.Names(h))
	}
}
