package httpserver

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// kit is an exec extension with one tool for each outcome.
const kit = `[plugin]
id = "kit"
version = "0.1.0"
[transport]
kind = "exec"
command = "true"
[[tools]]
name = "say"
description = "Says it."
command = ["sh", "-c", "echo careful >&2; cat"]
[[tools]]
name = "die"
description = "Dies."
command = ["sh", "-c", "echo 'last words' >&2; kill -9 $$"]
[[tools]]
name = "grumble"
description = "Fails."
command = ["sh", "-c", "echo no >&2; exit 1"]
[[tools]]
name = "place"
description = "Is told where by a header too."
command = ["cat"]
input_schema = { type = "object", properties = { region = { type = "string", "x-mcp-header" = "Region" } } }
[[tools]]
name = "fail"
description = "Is denied."
command = ["true"]
`

// openKit opens a host with kit and an extension that lacks a requirement.
func openKit(t *testing.T, o exthost.Options) *exthost.Host {
	t.Helper()
	return openKitWith(t, config.Default(), o)
}

func openKitWith(t *testing.T, cfg *config.Config, o exthost.Options) *exthost.Host {
	t.Helper()
	dir := t.TempDir()
	lost := "[plugin]\nid = \"lost\"\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"x\"]\n[transport]\ncommand = " +
		"\"./lost\"\n[requires]\nbins = [\"no-such-program\"]\n"
	writeManifest(t, dir, "kit", kit)
	writeManifest(t, dir, "lost", lost)
	cfg.Extensions.SearchPaths = []string{dir}
	return openHost(t, cfg, o)
}

func writeManifest(t testing.TB, dir, id, manifest string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, id), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, id, "plugin.toml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
}

// openHost opens a host until the end of the test.
func openHost(t testing.TB, cfg *config.Config, o exthost.Options) *exthost.Host {
	t.Helper()
	o.StateDir, o.Logger = t.TempDir(), slog.New(slog.DiscardHandler)
	h, err := exthost.Open(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// adminServer serves the admin API of an openKit host.
func adminServer(t *testing.T) (*httptest.Server, *exthost.Host) {
	t.Helper()
	return serveAdmin(t, exthost.Options{})
}

func serveAdmin(t *testing.T, o exthost.Options) (*httptest.Server, *exthost.Host) {
	t.Helper()
	var s *httptest.Server
	t.Cleanup(func() { s.Close() }) // after the host, which ends the streams
	h := openKit(t, o)
	s = httptest.NewServer(Admin(h, nil))
	return s, h
}

// untrusted is a directory with an extension that was not trusted yet.
type untrusted struct{ agreed atomic.Bool }

func (u *untrusted) Untrusted(context.Context) ([]status.Untrusted, error) {
	if u.agreed.Load() {
		return nil, nil
	}
	return []status.Untrusted{{
		Names:  []string{"stranger"},
		Place:  "./extensions/stranger",
		Runs:   []string{"sh -c '" + hostile + "'"},
		Asks:   []string{"gets the secrets TOKEN"},
		Files:  2,
		Digest: "sha256:1",
	}}, nil
}

func (u *untrusted) Agree(_ context.Context, digest string) error {
	if digest != "sha256:1" || u.agreed.Swap(true) {
		return protocol.Errorf(protocol.DescriptorChanged, "nothing has this digest")
	}
	return nil
}
