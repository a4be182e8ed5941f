package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

// loadClients loads a user's file over which a project's file is laid.
func loadClients(t *testing.T, user, project string) (*config.Config, string) {
	t.Helper()
	userDir, dir := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(userDir, "exthost.yaml"): user,
		filepath.Join(dir, "exthost.yaml"):     project,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, _, diags := loaded(config.LoadOptions{Dir: dir, UserDir: userDir, SystemDir: "none", Environ: []string{}})
	return cfg, config.Refused(diags).Error()
}

// A project's file can neither name clients nor let anyone call without a token.
func TestClientsOfAProject(t *testing.T) {
	hash := clienttoken.Hash("x")
	user := "server: {clients: {ada: {token_hash: " + hash + "}}}\n"
	for name, project := range map[string]string{
		"another client": "server: {clients: {mallory: {token_hash: " + clienttoken.Hash("m") + "}}}",
		"another token":  "server: {clients: {ada: {token_hash: " + clienttoken.Hash("m") + "}}}",
		"a further token": "server: {clients: {ada: {old_token_hash: " + clienttoken.Hash("m") +
			`, old_until: "2199-01-01T00:00:00Z"}}}`,
		"a static token": "server: {auth: {token: mallory-mallory-mallory}}",
		"an issuer": "server: {auth: {oauth: {issuer: https://evil.example, resource: " +
			"https://host.example/mcp}}}",
		"any user":           "server: {auth: {loopback: any}}",
		"a right to approve": "server: {clients: {ada: {approves: [read, write, destroy]}}}",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, said := loadClients(t, user, project)
			if cfg == nil || !strings.Contains(said, "ignored, because") {
				t.Fatalf("%v: %s", cfg, said)
			}
			if got := cfg.Server.Clients; len(got) != 1 || !cmp.Equal(got["ada"], config.Client{TokenHash: hash}) ||
				cfg.Server.Auth.Stated() || cfg.Server.Auth.Loopback != "" {
				t.Errorf("%+v, %+v", got, cfg.Server.Auth)
			}
		})
	}
	if cfg, said := loadClients(t, "", "server: {clients: {mallory: {token_hash: "+hash+"}}}"); cfg == nil ||
		len(cfg.Server.Clients) > 0 || !strings.Contains(said, "server.clients: ignored") {
		t.Errorf("without clients of the user: %+v %s", cfg, said)
	}
}

func TestInvalidClientsAreRefused(t *testing.T) {
	hash := clienttoken.Hash("x")
	for name, tt := range map[string]struct{ text, want string }{
		"upper case":   {"Ada: {}", "is not the name of a client"},
		"a path":       {`"../ada": {}`, "is not the name of a client"},
		"a line":       {`"ada\nbob": {}`, "is not the name of a client"},
		"stdio":        {`"stdio:1": {}`, "is not the name of a client"},
		"long":         {strings.Repeat("a", 65) + ": {}", "is not the name of a client"},
		"a dash first": {`-a: {}`, "is not the name of a client"},
		"nothing":      {`"": {}`, "is not the name of a client"},
		"token":        {"token: {}", "cannot be the name of a client"},
		"operator":     {"operator: {}", "cannot be the name of a client"},
		"a token":      {"ada: {token_hash: exthost_canary}", "a hash is sha256: and 64 hexadecimal digits"},
		"short":        {"ada: {token_hash: " + hash[:70] + "}", "a hash is sha256:"},
		"longer":       {"ada: {token_hash: " + hash + "00}", "a hash is sha256:"},
		"no digits":    {"ada: {token_hash: sha256:" + strings.Repeat("g", 64) + "}", "a hash is sha256:"},
		"one of two": {"ada: {token_hash: " + hash + "}, bob: {token_hash: " + hash + "}",
			"the hash of another token too: server.clients.ada.token_hash"},
		"no end":      {"ada: {old_token_hash: " + hash + "}", "go together"},
		"no time":     {"ada: {old_token_hash: " + hash + ", old_until: tomorrow}", "is not a date and time"},
		"another key": {"ada: {tokn_hash: x}", "unknown key"},
		"no risk":     {"ada: {approves: [delete]}", "destroy"},
		"approves without tools": {"ada: {token_hash: " + hash + ", scope: metrics, approves: [read]}",
			"the client has scope metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, said := loadClients(t, "server: {clients: {"+tt.text+"}}", "")
			if cfg != nil || !strings.Contains(said, tt.want) || strings.Contains(said, "canary") {
				t.Errorf("%v: %s", cfg, said)
			}
		})
	}
	cfg, said := loadClients(t, `server: {clients: {a: {}, "0-_": {token_hash: `+hash+`}, "null": {}, "true": {}}}`, "")
	if cfg == nil {
		t.Fatal(said)
	}
	got, want := slices.Sorted(maps.Keys(cfg.Server.Clients)), []string{
		"0-_",
		"a",
		"null",
		"true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
