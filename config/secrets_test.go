package config_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
)

// The place of the secrets: default and stated.
func TestPlaceOfSecrets(t *testing.T) {
	dir := write(t, map[string]string{"user/exthost.yaml": ""})
	o := alone(dir)
	o.UserDir = dir + "/user"
	cfg, _ := mustLoad(t, o)
	want := config.Secrets{
		Provider: "age",
		Path:     dir + "/user/secrets/secrets.age",
		Identity: dir + "/user/secrets/identity",
		Timeout:  config.Default().Secrets.Timeout,
		Logins:   dir + "/user/logins",
	}
	if diff := cmp.Diff(want, cfg.Secrets); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"{provider: command, command: [op, read, 'op://v/{name}'], timeout: 5s}": "",
		"{provider: file, path: ./secrets}":                                      "",
		"{provider: age, path: s/x.age}":                                         "",
		"{provider: keyring}":                                                    "",
		"{provider: command}":                                                    "secrets.command: provider command needs a command",
		"{provider: file}":                                                       "secrets.path: provider file needs a path",
		"{provider: env, path: x}":                                               "secrets.path: only for provider age and file",
		"{command: [op]}":                                                        "secrets.command: only for provider command",
		"{provider: file, path: x, identity: y}":                                 "secrets.identity: only for provider age",
		"{timeout: 0}":                                                           "secrets.timeout: without a limit",
		"{provider: vault}":                                                      "secrets.provider",
	} {
		dir := write(t, map[string]string{"user/exthost.yaml": "secrets: " + text})
		o := alone(dir)
		o.UserDir = dir + "/user"
		cfg, _, diags := loaded(o)
		said := textOf(diags)
		if want == "" && cfg == nil || want != "" && !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", text, said, want)
		}
		if cfg != nil && cfg.Secrets.Provider == "age" &&
			cfg.Secrets.Identity != filepath.Join(dir, "user", "s", "identity") {
			t.Errorf("%s: %+v", text, cfg.Secrets)
		}
	}
}

func textOf(diags any) string {
	text, _ := json.Marshal(diags)
	return string(text)
}

// SecretUses lists references with their origin.
func TestSecretUsesHaveOrigins(t *testing.T) {
	dir := write(t, map[string]string{
		"user/exthost.yaml": `
extensions: {entries: {a.b: {env: {TOKEN: "secret://u1", PLAIN: x}}, files: {env_file: u.env}}}
destinations: {hub: {url: "https://h.example/?k=secret://u2", headers: {X-A: "Bearer secret://u3"}}, pod: {command: [p, "secret://not-here"], env: {K: "secret://u4"}}}
plugins: [{name: p, category: content, kind: native, cmd: [p], env: {T: "secret://u5"}, config: {t: "secret://not-here"}}]
`,
		"user/u.env": "A=secret://u6\n",
		"project/exthost.yaml": "extensions: {entries: {a.b: {config: {t: 'secret://not-here'}}, c: {env: {T: " +
			"'secret://p1'}, env_file: p.env}}}\ndestinations: {own: {url: 'https://p.example/', headers: {X: " +
			"'secret://p2'}}, file: {command: [p], secrets_file: s.env}}\n",
		"project/p.env": "A=secret://p3\n",
	})
	o := alone(dir + "/project")
	o.UserDir = dir + "/user"
	cfg, origins := mustLoad(t, o)
	got := map[string]string{}
	for _, use := range cfg.SecretUses {
		if got[use.Name] = use.Key; use.Project {
			got[use.Name] += " project"
		}
	}
	want := map[string]string{
		"u1": `extensions.entries."a.b".env.TOKEN`,
		"u2": "destinations.hub.url",
		"u3": "destinations.hub.headers.X-A",
		"u4": "destinations.pod.env.K",
		"u5": "plugins[0].env.T",
		"u6": "extensions.entries.files.env_file",
		"p1": "extensions.entries.c.env.T project",
		"p2": "destinations.own.headers.X project",
		"p3": "extensions.entries.c.env_file project",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]bool{"hub": false, "file": true} {
		if got := cfg.Destinations[name].ProjectSecrets; got != want {
			t.Errorf("%s: its secrets are the project's: %v", name, got)
		}
	}
	if shown := textOf(cfg.Settings(origins)); !strings.Contains(shown, `"secret://u1"`) {
		t.Errorf("a reference is no secret: %s", shown)
	}
	o.File = dir + "/project/exthost.yaml" // chosen by the user
	cfg, _ = mustLoad(t, o)
	for _, use := range cfg.SecretUses {
		if use.Project {
			t.Errorf("%+v", use)
		}
	}
}

// References that are not allowed are errors with a position.
func TestSecretsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"extensions: {entries: {a: {env: {TOKEN: 'secret://a/b'}}}}": "exthost.yaml:1:41: " +
			"extensions.entries.a.env.TOKEN: secret://a/… is no reference",
		"extensions: {entries: {a: {env: {TOKEN: 'Bearer " +
			"secret://'}}}}": "is no name of a secret",
		"server: {auth: {token: 'secret://well-known-token'}}": "server.auth.token: a reference to a secret does not " +
			"count here",
		"plugins: [{name: p, category: content, kind: native, cmd: [p], env: {T: " +
			"'secret://x'}}]": "plugins[0].env.T: a project's file cannot send",
		"plugins: [{name: p, kind: mcp, mcp: {proto: STDIO, cmd: [p], env: {T: 'secret://x'}}, hooks: " +
			"[x] }]": "plugins[0].mcp.env.T: a project's file cannot send",
	} {
		cfg, _, diags := loaded(alone(write(t, map[string]string{"exthost.yaml": text})))
		var said []string
		for _, d := range diags {
			said = append(said, d.String())
		}
		if all := strings.Join(said, "\n"); cfg != nil || !strings.Contains(all, want) {
			t.Errorf("%s: %s, want %s", text, all, want)
		}
	}
}

// A project's file can neither move the user's secrets nor change how an extension with secrets runs.
func TestProjectsLeaveSecretsAlone(t *testing.T) {
	dir := write(t, map[string]string{
		"user/exthost.yaml": "secrets: {provider: file, path: mine}\nextensions: {entries: {x: {env: {MINE: " +
			"'secret://github'}}}}",
		"project/exthost.yaml": "secrets: {provider: command, command: [./evil, '{name}']}\nextensions: {entries: " +
			"{x: {env: {NODE_OPTIONS: '-r ./evil.js'}}}}",
	})
	o := alone(dir + "/project")
	o.UserDir = dir + "/user"
	cfg, origins, diags := loaded(o)
	if cfg == nil {
		t.Fatal(textOf(diags))
	}
	if cfg.Secrets.Provider != "file" || cfg.Secrets.Path != dir+"/user/mine" || cfg.Secrets.Command != nil ||
		len(cfg.Extensions.Entries["x"].Env) != 1 {
		t.Errorf("%+v, %+v", cfg.Secrets, cfg.Extensions.Entries["x"])
	}
	if at := origins.Of("secrets.provider"); !strings.HasPrefix(at, dir+"/user/") {
		t.Errorf("it comes from %s", at)
	}
	for _, want := range []string{
		"secrets: ignored, because a project's file cannot say where",
		"extensions.entries.x.env: ignored",
	} {
		if !strings.Contains(textOf(diags), want) {
			t.Errorf("no %q in %s", want, textOf(diags))
		}
	}
}
