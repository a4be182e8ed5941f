package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
)

// A project's files may tighten the user's security settings; what loosens them is ignored with a warning that
// names file, line and key.
func TestProjectsOnlyTighten(t *testing.T) {
	const user = `
extensions:
  allowlist: [notes, files]
  env: {mode: allowlist, pass: [LANG]}
  defaults: {isolate: pid}
  entries: {files: {env_deny: [TOKEN], hooks: own}, box: {new_privileges: true}}
server: {auth: {token_env: MINE}, allowed_origins: ["https://good.example"], allowed_hosts: [good.example], tls: {cert: /c.pem, key: /k.pem}}
audit: {path: /var/log/audit.jsonl}
governance: {headers: [X-Api-Key]}
destinations: {hub: {url: "https://good.example/sse", headers: {Authorization: "Bearer ${MINE}"}}, pod: {command: podman, new_privileges: true}}
`
	sandboxed := strings.NewReplacer("defaults:", "sandbox: {default: strict}\n  defaults:", "entries: {files: {",
		"entries: {old: {sandbox: off}, files: {sandbox: strict, ",
		"box: {", "bin: {sandbox: {read: [/srv]}}, box: {").Replace(user)
	for name, tt := range map[string]struct {
		user, project string
		want          []string // the warnings, without what precedes the key
		check         func(*config.Config) any
		value         any
	}{
		"another allowlist": {user, "extensions: {allowlist: [notes, evil]}",
			[]string{"exthost.yaml:1:25: extensions.allowlist"},
			func(c *config.Config) any { return c.Extensions.Allowlist }, []string{"notes", "files"}},
		"no allowlist": {user, "extensions: {allowlist: []}", []string{"exthost.yaml:1:25: extensions.allowlist"},
			func(c *config.Config) any { return c.Extensions.Allowlist }, []string{"notes", "files"}},
		"a shorter allowlist": {user, "extensions: {allowlist: [notes]}", nil,
			func(c *config.Config) any { return c.Extensions.Allowlist }, []string{"notes"}},
		"more variables": {user, "extensions: {env: {mode: filter, pass: [LANG, AWS_KEY]}}",
			[]string{"exthost.yaml:1:26: extensions.env.mode", "exthost.yaml:1:40: extensions.env.pass"},
			func(c *config.Config) any { return c.Extensions.Env },
			config.Env{Mode: config.EnvAllowlist, Pass: []string{"LANG"}}},
		"fewer variables": {user, "extensions: {env: {pass: []}}", nil,
			func(c *config.Config) any { return len(c.Extensions.Env.Pass) }, 0},
		"no isolation": {user, "extensions: {defaults: {isolate: none}, entries: {files: {runtime: {isolate: none}}}}",
			[]string{
				"exthost.yaml:1:34: extensions.defaults.isolate",
				"exthost.yaml:1:78: extensions.entries.files.runtime.isolate",
			},
			func(c *config.Config) any {
				return c.Extensions.Defaults.Isolate + "," + c.Extensions.Entries["files"].Runtime.Isolate
			}, "pid,"},
		"another denial": {user, "extensions: {entries: {files: {env_deny: [OTHER]}}}",
			[]string{"exthost.yaml:1:42: extensions.entries.files.env_deny"},
			func(c *config.Config) any { return c.Extensions.Entries["files"].EnvDeny }, []string{"OTHER", "TOKEN"}},
		"variables of one that has secrets": {strings.Replace(user, "box: {", "box: {env_pass: [BOX_KEY], ", 1),
			"extensions: {entries: {box: {env: {BOX_URL: evil}, env_file: evil.env, env_pass: [BOX_KEY, AWS_KEY]}}}",
			[]string{
				"exthost.yaml:1:29: extensions.entries.box.new_privileges",
				"exthost.yaml:1:35: extensions.entries.box.env",
				"exthost.yaml:1:62: extensions.entries.box.env_file",
				"exthost.yaml:1:82: extensions.entries.box.env_pass",
			},
			func(c *config.Config) any {
				e := c.Extensions.Entries["box"]
				return fmt.Sprint(e.Env, e.EnvFile, e.EnvPass)
			}, "map[][BOX_KEY]"},
		"config of one that has secrets": {strings.Replace(user, "box: {",
			"crm: {env: {KEY: 'secret://crm'}, config: {deep: {url: good}}}, box: {", 1),
			"extensions: {entries: {crm: {config: {deep: {url: evil}}}}}",
			[]string{"exthost.yaml:1:38: extensions.entries.crm.config"},
			func(c *config.Config) any { return fmt.Sprint(c.Extensions.Entries["crm"].Config) },
			"map[deep:map[url:good]]"},
		"a lower risk": {strings.Replace(user, "box: {",
			"crm: {tools: {rm: {risk: write}, cp: {risk: destroy}}}, box: {", 1),
			"extensions: {entries: {crm: {tools: {rm: {risk: read}, cp: {risk: write}, ls: {risk: read}}}}}",
			[]string{
				"exthost.yaml:1:49: extensions.entries.crm.tools.rm.risk",
				"exthost.yaml:1:67: extensions.entries.crm.tools.cp.risk",
				"exthost.yaml:1:79: extensions.entries.crm.tools.ls",
			},
			func(c *config.Config) any { return fmt.Sprint(c.Extensions.Entries["crm"].Tools) },
			"map[cp:{destroy} rm:{write}]"},
		"a higher risk": {strings.Replace(user, "box: {", "crm: {tools: {rm: {risk: read}}}, box: {", 1),
			"extensions: {entries: {crm: {tools: {rm: {risk: write}, ls: {risk: destroy}}}}}", nil,
			func(c *config.Config) any { return fmt.Sprint(c.Extensions.Entries["crm"].Tools) },
			"map[ls:{destroy} rm:{write}]"},
		"hooks that see more": {user, "extensions: {entries: {files: {hooks: all}}}",
			[]string{"exthost.yaml:1:39: extensions.entries.files.hooks"},
			func(c *config.Config) any { return c.Extensions.Entries["files"].Hooks }, config.HooksOwn},
		"hooks that see less": {user, "extensions: {entries: {files: {hooks: none}}}", nil,
			func(c *config.Config) any { return c.Extensions.Entries["files"].Hooks }, config.HooksNone},
		"another token": {user, "server: {auth: {token: letmein-letmein-letmein}}",
			[]string{"exthost.yaml:1:16: server.auth"},
			func(c *config.Config) any { return c.Server.Auth }, config.Auth{TokenEnv: "MINE"}},
		"every user of the machine": {user, "server: {auth: {loopback: any}}",
			[]string{"exthost.yaml:1:27: server.auth.loopback"},
			func(c *config.Config) any { return c.Server.Auth.Loopback }, ""},
		"other pages": {user, "server: {allowed_origins: ['https://evil.example'], allowed_hosts: [good.example, " +
			"evil.example]}",
			[]string{"exthost.yaml:1:27: server.allowed_origins", "exthost.yaml:1:68: server.allowed_hosts"},
			func(c *config.Config) any { return append(c.Server.AllowedOrigins, c.Server.AllowedHosts...) },
			[]string{"https://good.example", "good.example"}},
		"a cluster": {user, "cluster: {join: evil.creds, share: [{extensions: ['*'], as: replicas}]}",
			[]string{"exthost.yaml:1:10: cluster"},
			func(c *config.Config) any { return c.Cluster.Join + c.Cluster.Share[0].As }, "mine"},
		"calls that fail": {user, "inject: [{tool: '*', crash: 0.5}]", []string{"exthost.yaml:1:9: inject"},
			func(c *config.Config) any { return len(c.Inject) }, 0},
		"no TLS": {user, "server: {tls: {cert: '', key: ''}}", []string{"exthost.yaml:1:15: server.tls"},
			func(c *config.Config) any { return c.Server.TLS.Cert }, "/c.pem"},
		"fewer headers": {user, "governance: {headers: []}", []string{"exthost.yaml:1:23: governance.headers"},
			func(c *config.Config) any { return c.Governance.Headers }, []string{"X-Api-Key"}},
		"more headers": {user, "governance: {headers: [X-Api-Key, X-Team]}", nil,
			func(c *config.Config) any { return len(c.Governance.Headers) }, 2},
		"another server for a token": {user, "destinations: {hub: {url: 'https://evil.example/sse', port: 0}}",
			[]string{"exthost.yaml:1:21: destinations.hub"},
			func(c *config.Config) any { return c.Destinations["hub"].URL }, "https://good.example/sse"},
		"a program for a token": {user, "destinations: {hub: {type: stdio, command: ./evil}}",
			[]string{"exthost.yaml:1:21: destinations.hub"},
			func(c *config.Config) any { return c.Destinations["hub"].URL }, "https://good.example/sse"},
		"code for a program with a token": {user, "destinations: {pod: {env: {NODE_OPTIONS: --require=./evil.js}}}",
			[]string{"exthost.yaml:1:21: destinations.pod"},
			func(c *config.Config) any { return len(c.Destinations["pod"].Env) }, 0},
		"variables of clients for a program with a token": {user,
			"destinations: {pod: {env_from_headers: {X-Options: NODE_OPTIONS}}}",
			[]string{"exthost.yaml:1:21: destinations.pod"},
			func(c *config.Config) any { return len(c.Destinations["pod"].EnvFromHeaders) }, 0},
		"more time for a server": {user,
			"destinations: {hub: {start_timeout: 5s}, own: {url: 'https://its.example/sse'}}", nil,
			func(c *config.Config) any { return len(c.Destinations) }, 3},
		"another audit log": {user, "audit: {path: /dev/null, keep: 0}", []string{"exthost.yaml:1:8: audit"},
			func(c *config.Config) any { return c.Audit.Path }, "/var/log/audit.jsonl"},
		"privileges": {user, "extensions: {entries: {files: {new_privileges: true}}}\ndestinations: {pod: {command: " +
			"evil}, new: {command: sudo, new_privileges: true}}",
			[]string{
				"exthost.yaml:1:48: extensions.entries.files.new_privileges",
				"exthost.yaml:2:21: destinations.pod",
				"exthost.yaml:2:75: destinations.new.new_privileges",
			},
			func(c *config.Config) any {
				return []bool{
					c.Extensions.Entries["files"].NewPrivileges,
					c.Destinations["pod"].NewPrivileges,
					c.Destinations["new"].NewPrivileges,
					c.Extensions.Entries["box"].NewPrivileges,
				}
			}, []bool{false, true, false, true}},
		"other keys of who has privileges": {user,
			"extensions: {entries: {box: {env: {PATH: evil}}}}\ndestinations: {pod: {}}",
			[]string{
				"exthost.yaml:1:29: extensions.entries.box.new_privileges",
				"exthost.yaml:2:21: destinations.pod.new_privileges",
			},
			func(c *config.Config) any { return c.Extensions.Entries["box"].NewPrivileges }, false},
		"privileges that the user does not state": {"", "extensions: {entries: {files: {new_privileges: true}}}",
			[]string{"exthost.yaml:1:48: extensions.entries.files.new_privileges"},
			func(c *config.Config) any { return c.Extensions.Entries["files"].NewPrivileges }, false},
		"a sandbox": {sandboxed,
			"extensions: {sandbox: {default: off}, entries: {files: {sandbox: off}, bin: {sandbox: {net: " +
				"[evil.example:443]}}, new: {sandbox: {read: [/]}}, old: {sandbox: strict}}}",
			[]string{
				"exthost.yaml:1:33: extensions.sandbox.default",
				"exthost.yaml:1:66: extensions.entries.files.sandbox",
				"exthost.yaml:1:87: extensions.entries.bin.sandbox",
				"exthost.yaml:1:130: extensions.entries.new.sandbox",
			},
			func(c *config.Config) any {
				x := c.Extensions
				return []string{
					x.Sandbox.Default,
					x.Entries["files"].Sandbox.Mode,
					x.Entries["bin"].Sandbox.Read[0],
					fmt.Sprint(x.Entries["bin"].Sandbox.Net),
					x.Entries["new"].Sandbox.Mode,
					x.Entries["old"].Sandbox.Mode,
				}
			}, []string{"strict", "strict", "/srv", "[]", "", "strict"}},
		"what the user does not state": {"",
			"extensions: {allowlist: [a], env: {mode: filter}}\naudit: {path: a.jsonl}\nserver: {auth: {token_env: " +
				"ITS}}", nil,
			func(c *config.Config) any { return c.Server.Auth.TokenEnv }, "ITS"},
	} {
		dir := write(t, map[string]string{"user/exthost.yaml": tt.user, "project/exthost.yaml": tt.project})
		o := alone(dir+"/project", "MINE=a", "ITS=b")
		o.UserDir = dir + "/user"
		cfg, origins, diags := loaded(o)
		if cfg == nil {
			t.Errorf("%s: %s", name, text(diags, ""))
			continue
		}
		var got []string
		for line := range strings.Lines(text(diags, "")) {
			if at, by, ok := strings.Cut(strings.TrimPrefix(line, "warn "+dir+"/project/"), ": ignored, because "); ok {
				got = append(got, at)
				by, loosens := strings.CutPrefix(by, "it loosens what ")
				if loosens != strings.HasPrefix(by, dir+"/user/exthost.yaml:") {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s\n%s", name, diff, text(diags, ""))
		}
		if diff := cmp.Diff(tt.value, tt.check(cfg)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if at := origins.Of("server.auth.token_env"); tt.user != "" && !strings.HasPrefix(at, dir+"/user/") {
			t.Errorf("%s: the token comes from %s", name, at)
		}
	}
	dir := write(t, map[string]string{"user/exthost.yaml": user, "more.yaml": "extensions: {allowlist: [other]}"})
	o := alone(dir, "MINE=a")
	o.UserDir, o.File = dir+"/user", dir+"/more.yaml"
	if cfg, _ := mustLoad(t, o); cfg.Extensions.Allowlist[0] != "other" {
		t.Errorf("a file of --config loosens nothing: %v", cfg.Extensions.Allowlist)
	}
}

// Each policy is marked with the layer that states it.
func TestPoliciesHaveTheirLayer(t *testing.T) {
	const plugins = "plugins: [{name: %, category: content, builtin: redact}]"
	of := func(name string) string { return strings.ReplaceAll(plugins, "%", name) }
	dir := write(t, map[string]string{
		"system/exthost.yaml":  of("s"),
		"user/exthost.yaml":    of("u"),
		"project/exthost.yaml": of("p"),
	})
	o := alone(dir + "/project")
	o.SystemDir, o.UserDir = dir+"/system", dir+"/user"
	cfg, _ := mustLoad(t, o)
	got := make(map[string]governance.Layer)
	for _, p := range cfg.Plugins {
		got[p.Name] = p.Layer
	}
	diff := cmp.Diff(map[string]governance.Layer{
		"s": governance.LayerSystem,
		"u": governance.LayerUser,
		"p": governance.LayerProject,
	}, got)
	if diff != "" {
		t.Error(diff)
	}
}
