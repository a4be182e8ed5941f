package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
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

// desk is that of a directory with an extension that was not trusted yet, and with the user's configuration.
type desk struct {
	agreed atomic.Bool
	dir    string
}

// newDesk returns a desk whose user's file has this text.
func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Dir(d.file()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.file(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// file returns the user's configuration file.
func (d *desk) file() string { return filepath.Join(d.dir, "user", "exthost.yaml") }

// LoadOptions implements [Desk].
func (d *desk) LoadOptions() config.LoadOptions {
	return config.LoadOptions{Dir: d.dir, UserDir: filepath.Dir(d.file()), SystemDir: "none", Environ: []string{}}
}

// Edit implements [Desk].
func (d *desk) Edit(_ context.Context, edit func() error) ([]string, error) { return nil, edit() }

// states lets a host with this configuration read its clients and toolsets from the files of the desk.
func (d *desk) states(t *testing.T, o *exthost.Options, cfg *config.Config) {
	t.Helper()
	before := o.Reread
	o.Reread = func() (*config.Config, error) {
		next := *cfg
		if before != nil {
			other, err := before()
			if err != nil {
				return nil, err
			}
			next = *other
		}
		stated, err := config.Load(d.LoadOptions())
		if err != nil {
			return nil, err
		}
		next.Toolsets, next.Server.Clients = stated.Toolsets, stated.Server.Clients
		return &next, nil
	}
	begun, err := o.Reread()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Toolsets, cfg.Server.Clients = begun.Toolsets, begun.Server.Clients
}

// Untrusted implements [Desk].
func (d *desk) Untrusted(context.Context) ([]status.Untrusted, error) {
	if d.agreed.Load() {
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

// Agree implements [Desk].
func (d *desk) Agree(_ context.Context, digest string) error {
	if digest != "sha256:1" || d.agreed.Swap(true) {
		return protocol.Errorf(protocol.DescriptorChanged, "nothing has this digest")
	}
	return nil
}

// weekday denies tools by name.
type weekday string

func (w weekday) Decide(_ context.Context, _ governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if strings.HasSuffix(x.Tool, string(w)) {
		code := "no" + string(w)
		if w == "_die" { // a code that is no name
			code = fmt.Sprintf("user %p", x)
		}
		return governance.Decision{Action: governance.Deny, Code: code}, nil
	}
	return governance.Decision{}, nil
}
