package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// capped opens a host over the leaky extension with plugins. The returned function replaces them
// by a reload.
func capped(t *testing.T, state string, plugins ...governance.Spec,
) (*exthost.Host, func(...governance.Spec) *status.Change) {
	t.Helper()
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", leakyCapabilities+hosttest.Plays("leaky", ""))
	cfg := f.Config()
	cfg.Plugins = plugins
	h := f.OpenWith(cfg, exthost.Options{StateDir: state, Reread: func() (*config.Config, error) { return cfg, nil }})
	return h, func(plugins ...governance.Spec) *status.Change {
		t.Helper()
		next := *cfg
		next.Plugins = plugins
		cfg = &next
		return reload(t, h)
	}
}

// By name alone, the cap would run before the masks; its priority places it after them.
var (
	masks = governance.Spec{Name: "masks", Category: governance.Content, Builtin: "redact"}
	cuts  = governance.Spec{Name: "a-cap", Category: governance.Content, Builtin: "size_cap"}
)

func dump(t *testing.T, h *exthost.Host) string {
	t.Helper()
	result, err := h.Call(hosttest.Deadline(t), "ext_x_dump", nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Text()
}

var handleIn = regexp.MustCompile(`"handle":"([a-z0-9]+)","offset":(\d+)`)

// readOn reads the rest of a result that was cut.
func readOn(t *testing.T, h *exthost.Host, shown string) (rest string) {
	t.Helper()
	at := handleIn.FindStringSubmatch(shown)
	if at == nil {
		t.Fatalf("no handle in …%s", shown[max(0, len(shown)-300):])
	}
	for offset := at[2]; offset != ""; {
		page, err := h.Call(hosttest.Deadline(t), "exthost_result_page",
			json.RawMessage(fmt.Sprintf(`{"handle":%q,"offset":%s,"limit":65536}`, at[1], offset)))
		if err != nil {
			t.Fatal(err)
		}
		text := page.Text()
		cut := strings.LastIndex(text, "\n[bytes ")
		rest += text[:cut]
		_, offset, _ = strings.Cut(strings.TrimSuffix(text[cut:], "]"), "go on with offset ")
	}
	return rest
}

func spilled(t *testing.T, state string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, ".results", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantMasked(t *testing.T, where, text string) {
	t.Helper()
	for _, trace := range plantedTraces {
		if strings.Contains(text, trace) {
			t.Errorf("%s holds %q", where, trace)
		}
	}
	if !strings.Contains(text, "[redacted:") {
		t.Errorf("%s, of %d bytes, holds nothing masked", where, len(text))
	}
}

// Secrets in a result of 1 MiB are neither in the stored file nor in a page of it.
func TestStoredResultsAreMasked(t *testing.T) {
	state := t.TempDir()
	h, _ := capped(t, state, masks, cuts)
	var order []string
	for _, p := range h.Status().Policies {
		order = append(order, fmt.Sprint(p.Name, " ", p.Priority))
	}
	if !slices.Equal(order, []string{"masks 0", "a-cap 1000"}) {
		t.Errorf("the order is %q", order)
	}
	shown := dump(t, h)
	if len(shown) > 64<<10 {
		t.Errorf("%d bytes were shown", len(shown))
	}
	wantMasked(t, "what is shown", shown)
	rest := readOn(t, h, shown)
	if len(rest) < 1e6 {
		t.Errorf("the pages have %d bytes", len(rest))
	}
	wantMasked(t, "the pages", rest)
	files := spilled(t, state)
	if len(files) != 1 {
		t.Fatalf("the files are %q", files)
	}
	wantMasked(t, "the file", hosttest.ReadFile(t, files[0]))
}

// A reload adds and removes the page tool and its store with the policy. In shadow mode nothing
// is stored.
func TestReloadAddsSizeCap(t *testing.T) {
	state := t.TempDir()
	h, configure := capped(t, state, masks)
	has := func() bool { return slices.Contains(hosttest.Names(h), "exthost_result_page") }
	if text := dump(t, h); has() || len(text) < 1e6 {
		t.Fatalf("without a cap: %d bytes, the tool is listed: %t", len(text), has())
	}
	if c := configure(masks, cuts); !slices.Equal(c.Policies, []string{"a-cap"}) {
		t.Errorf("changed: %q", c.Policies)
	}
	if !has() {
		t.Fatalf("the tools are %q", hosttest.Names(h))
	}
	if rest := readOn(t, h, dump(t, h)); len(rest) < 1e6 {
		t.Errorf("the pages have %d bytes", len(rest))
	}
	kept := len(spilled(t, state))
	shadow := cuts
	shadow.Mode = governance.ModeShadow
	configure(masks, shadow)
	if text := dump(t, h); has() || len(text) < 1e6 || len(spilled(t, state)) != kept {
		t.Errorf("in shadow mode: %d bytes, the tool is listed: %t, %d files, before %d", len(text), has(),
			len(spilled(t, state)), kept)
	}
	_, err := h.Call(hosttest.Deadline(t), "exthost_result_page", json.RawMessage(`{"handle":"x"}`))
	if protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a page: %v", err)
	}
	configure(masks, cuts)
	if rest := readOn(t, h, dump(t, h)); len(rest) < 1e6 {
		t.Errorf("again with a cap: the pages have %d bytes", len(rest))
	}
	if err := h.Close(); err != nil || len(spilled(t, state)) > 0 {
		t.Errorf("Close: %v; left are %q", err, spilled(t, state))
	}
}

// An unusable directory is an error when the host opens.
func TestUnusableResultsDirectory(t *testing.T) {
	state := t.TempDir()
	h, _ := capped(t, state, masks)
	if err := os.WriteFile(filepath.Join(state, ".results"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Extensions.Enabled, cfg.Plugins = false, []governance.Spec{cuts}
	other, err := exthost.Open(hosttest.Deadline(t), cfg, exthost.Options{StateDir: state})
	if protocol.KindOf(err) != protocol.ConfigInvalid {
		t.Errorf("%v", err)
		_ = other.Close()
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
