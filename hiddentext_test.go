package exthost_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/protocol"
)

// T4: a tool whose descriptor has tag characters is in no list and answers no call until the
// operator accepts that very descriptor; other hidden characters are a warning.
func TestT4HiddenTextIsHeld(t *testing.T) {
	processtest.Leaks(t)
	f, state := lazyFolder(t, ""), t.TempDir()
	const hidden = "\U000e0041"
	f.write("x/tools.json", `[{"name":"greet","input_schema":{"type":"object","properties":{"note":{"type":"string","enum":["a`+hidden+`"]}}}}, {"name":"part","title":"P\u202e","input_schema":{"type":"object"}}]`)
	h := f.openWith(f.config(), exthost.Options{StateDir: state})
	if _, err := h.Call(deadline(t), "ext_x_part", nil); err != nil {
		t.Fatal(err)
	}
	held := func() {
		t.Helper()
		if slices.Contains(names(h), "ext_x_greet") || !slices.Contains(names(h), "ext_x_part") {
			t.Errorf("tools: %q", names(h))
		}
		if _, err := h.Call(deadline(t), "ext_x_greet", nil); protocol.KindOf(err) != protocol.DescriptorChanged || !strings.Contains(err.Error(), "exthost tools accept x greet") {
			t.Errorf("a held tool answers: %v", err)
		}
	}
	held()
	for _, want := range []string{"hidden_text_held", "U+E0041 at /input_schema/properties/note/enum/0", "U+202E at /title"} {
		if text := diagnosticsOf(h); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if err := h.Admin().AcceptTools(exthost.Selection{Extension: "x"}, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also for the next host
		if _, err := h.Call(deadline(t), "ext_x_greet", nil); err != nil || !slices.Contains(names(h), "ext_x_greet") {
			t.Errorf("accepted: %v, tools %q", err, names(h))
		}
		h.Close()
		h = f.openWith(f.config(), exthost.Options{StateDir: state})
	}
	f.write("x/tools.json", `[{"name":"greet","description":"another `+hidden+`"}, {"name":"part"}]`)
	if err := h.Admin().Restart(deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another text is held", func() bool { return !slices.Contains(names(h), "ext_x_greet") })
	held()
}

// What was accepted and cannot be stored is listed until the host ends, as the error says.
func TestAcceptedAndNotStored(t *testing.T) {
	processtest.Leaks(t)
	f, state := lazyFolder(t, ""), t.TempDir()
	f.write("x/tools.json", "[{\"name\":\"greet\",\"description\":\"\U000e0041\"}]")
	if err := os.MkdirAll(filepath.Join(state, ".hidden.json", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := f.openWith(f.config(), exthost.Options{StateDir: state})
	if _, err := h.Call(deadline(t), "ext_x_greet", nil); protocol.KindOf(err) != protocol.DescriptorChanged {
		t.Fatal(err)
	}
	if err := h.Admin().AcceptTools(exthost.Selection{Extension: "x"}, "ada"); protocol.KindOf(err) != protocol.ConfigInvalid {
		t.Errorf("accepted: %v", err)
	}
	if !slices.Contains(names(h), "ext_x_greet") {
		t.Errorf("tools: %q", names(h))
	}
}
