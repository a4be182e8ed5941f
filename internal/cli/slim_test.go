//go:build slim

package cli

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/version"
)

// TestSlimRefuses asks a slim build for all that it lacks. It refuses by name, with the place and the next step, before
// anything is served.
func TestSlimRefuses(t *testing.T) {
	if !strings.HasSuffix(version.Text(), " slim") {
		t.Errorf("it says that it is %s", version.Text())
	}
	const lacks = "this exthost is a slim build, which has "
	for name, tt := range map[string]struct {
		config string
		want   []string
		file   string // default: that of the directory
	}{
		"CEL": {"plugins:\n- name: hours\n  category: authorization\n  builtin: cel\n  config: {when: 'true'}\n",
			[]string{"exthost.yaml:2: plugins[0].builtin: " + lacks + "no CEL", "whole exthost"}, ""},
		"an expression that is wrong": {
			"plugins: [{name: hours, category: authorization, builtin: cel, config: {when: tol}}]\n",
			[]string{"which has no CEL"}, ""},
		"gRPC": {"plugins:\n- {name: ours, category: audit, kind: grpc, cmd: [./policy]}\n",
			[]string{"exthost.yaml:2: plugins[0].kind: " + lacks + "no policies over gRPC"}, ""},
		"a hub": {"cluster:\n  hub:\n    listen: 127.0.0.1:0\n",
			[]string{"exthost.yaml:3: cluster.hub: " + lacks + "no hub"}, "exthost/exthost.yaml"},
		"traces": {"otel:\n  endpoint: http://127.0.0.1:4318\n",
			[]string{"exthost.yaml:2: otel.endpoint: " + lacks + "no traces"},
			"exthost/exthost.yaml"},
		"metrics": {"server: {metrics: true}\n",
			[]string{"exthost.yaml:1: server.metrics: " + lacks + "no metrics", "false"}, ""},
		"gRPC by default": {"plugins:\n- {name: ours, category: audit, cmd: [./policy]}\n",
			[]string{"which has no policies over gRPC", "kind native or mcp"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			t.Setenv("HOME", dir)
			t.Setenv("XDG_CONFIG_HOME", dir)
			t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
			file := cmp.Or(tt.file, "exthost.yaml")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
				os.WriteFile(file, []byte(tt.config), 0o600)); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"validate"},
				{"serve", "--trust", "off", "--listen", "127.0.0.1:0"},
				{"serve", "--trust", "off", "--stdio", "--own"},
				{"call", "ext_x_y"},
			} {
				err := refusal(t, args...)
				if err == nil || console.ExitCode(err) != console.ExitInvalid {
					t.Errorf("exthost %q: %v", args, err)
					continue
				}
				for _, want := range tt.want {
					if text := console.Describe(err); !strings.Contains(text, want) {
						t.Errorf("exthost %q: no %q in %s", args, want, text)
					}
				}
			}
			if _, err := os.Stat("state"); err == nil {
				t.Error("something was opened")
			}
		})
	}
	err := refusal(t, "top")
	if err == nil || console.ExitCode(err) != console.ExitGated ||
		!strings.Contains(console.Describe(err), "is a slim build, which has no exthost top\n  next: exthost status") {
		t.Errorf("exthost top: %v", err)
	}
}

// refusal runs the program and returns its error.
func refusal(t *testing.T, args ...string) error {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c, err := execute(t.Context(), args, &console.Console{In: null, Out: null, Err: null}, new(hangup))
	c.Close()
	return err
}
