//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// A token file that others may read is refused; other readable files with secrets get a warning.
func TestFilesThatOthersMayRead(t *testing.T) {
	dir := write(t, map[string]string{
		"token":       "x",
		"vars":        "A=1",
		"private.env": "B=2",
		"host.key":    "k",
		"host.pem":    "c",
	})
	load := func(content string) (*config.Config, string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "exthost.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, diags := loaded(alone(dir))
		return cfg, text(diags, dir)
	}
	for _, tt := range []struct {
		file, text, key string
		refused         bool
	}{
		{"token", "server: {auth: {token_file: token}}", "server.auth.token_file", true},
		{"vars", "extensions: {entries: {hub: {env_file: vars}}}", "extensions.entries.hub.env_file", false},
		{"private.env", "destinations: {d: {type: stdio, command: [cat], secrets_file: private.env}}",
			"destinations.d.secrets_file", false},
		{"host.key", "server: {tls: {cert: host.pem, key: host.key}}", "server.tls.key", false},
	} {
		if err := os.Chmod(filepath.Join(dir, tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if cfg, said := load(tt.text); cfg == nil || said != "" {
			t.Errorf("%s, mode 600: %s", tt.file, said)
		}
		if err := os.Chmod(filepath.Join(dir, tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, said := load(tt.text)
		if (cfg == nil) != tt.refused || !strings.Contains(said, tt.key+": "+tt.file) ||
			!strings.Contains(said, "everybody may read this file") || !strings.Contains(said, "chmod 600 "+tt.file) {
			t.Errorf("%s, mode 644: %s", tt.file, said)
		}
		safe := alone(dir)
		safe.Environ = append(safe.Environ, "EXTHOST_EXTENSIONS_SAFE_DIRECTORIES="+dir)
		if cfg, _, diags := loaded(safe); cfg == nil || len(diags) > 0 {
			t.Errorf("%s in a safe directory: %s", tt.file, text(diags, dir))
		}
	}
}

// A token served without TLS to other machines gets a warning.
func TestTokenWithoutTLS(t *testing.T) {
	for content, warned := range map[string]bool{
		"server: {listen: '0.0.0.0:7800', auth: {token_env: T}}":   true,
		"server: {listen: ':7800', auth: {token_env: T}}":          true,
		"server: {listen: '127.0.0.1:7800', auth: {token_env: T}}": false,
		"server: {listen: 'localhost:7800', auth: {token_env: T}}": false,
		// refused by serve
		"server: {listen: '0.0.0.0:7800'}": false,
		"server: {listen: '0.0.0.0:7800', tls: {cert: host.pem, key: host.key}, auth: {token_env: T}}":      false,
		"server: {listen: '0.0.0.0:7800', auth: {oauth: {issuer: https://i.e, resource: https://h.e/mcp}}}": true,
	} {
		dir := write(t, map[string]string{"exthost.yaml": content})
		cfg, _, diags := loaded(alone(dir))
		if said := text(diags, dir); cfg == nil || strings.Contains(said, "without TLS") != warned {
			t.Errorf("%s: %s", content, said)
		}
	}
}
