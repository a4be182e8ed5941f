package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/config/cluster"
)

// load reads text as the file of --config.
func load(t *testing.T, text string, flags ...config.Flag) (*config.Config, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{
		File:      file,
		Dir:       t.TempDir(),
		Environ:   []string{},
		UserDir:   "none",
		SystemDir: "none",
		Flags:     flags,
	})
	refused, invalid := errors.AsType[config.Refused](err)
	if !invalid {
		refused = cfg.Warnings
	}
	var lines []string
	for _, d := range refused {
		lines = append(lines, strings.TrimPrefix(d.String(), filepath.Dir(file)+string(filepath.Separator)))
	}
	return cfg, strings.Join(lines, "\n")
}

func TestSectionLoads(t *testing.T) {
	cfg, wrong := load(t, `
cluster:
  join: ./gpu1.creds
  node: gpu1
  share:
  - {extensions: [search, "web-*"], as: replicas}
  - {extensions: [shell], as: none}
  use: [{nodes: ["n*"], extensions: ["*"]}]
  operators: [n1]
  pulse: 500ms
  hub: {listen: "0.0.0.0:7822", peers: ["n1:7823", "n2:7823"]}
`)
	if cfg == nil {
		t.Fatal(wrong)
	}
	m := cfg.Cluster
	if !m.Joins() || !filepath.IsAbs(m.Join) || m.Node != "gpu1" || len(m.Share) != 2 ||
		m.Share[1].As != cluster.ShareNone || m.Use[0].Nodes[0] != "n*" || m.MaxCalls != 1024 ||
		m.Hub.Dir != filepath.Join(filepath.Dir(m.Join), "cluster") || m.Hub.RoutesListen() != "0.0.0.0:7823" {
		t.Errorf("%+v", m)
	}
	cfg, wrong = load(t, "{}", config.Flag{Name: "--cluster", Key: "cluster.join", Values: []string{"n9.creds"}},
		config.Flag{Name: "--node", Key: "cluster.node", Values: []string{"n9"}})
	if cfg == nil || filepath.Base(cfg.Cluster.Join) != "n9.creds" || !filepath.IsAbs(cfg.Cluster.Join) ||
		cfg.Cluster.Node != "n9" || cfg.Cluster.Share[0].As != cluster.ShareMine {
		t.Errorf("%s: %+v", wrong, cfg)
	}
	if cfg, wrong = load(t, "{}"); cfg == nil || cfg.Cluster.Joins() {
		t.Errorf("a host without the section joins: %s", wrong)
	}
}

func TestInvalidSectionsAreErrors(t *testing.T) {
	for section, want := range map[string]string{
		"{join: a.creds, urls: [tls://n:1]}":         "exclude each other",
		"{creds: a.creds}":                           "cluster.creds: only with urls",
		"{urls: [tls://n:1], creds: a, nkey: b}":     "exclude each other",
		"{urls: ['http://n:1']}":                     "tls://nats.example:4222",
		"{urls: ['nats://me:secret@n:1']}":           "state creds or nkey",
		"{urls: ['nats://me:secret@n']}":             "state creds or nkey",
		"{urls: ['me:secret@n:1']}":                  "state creds or nkey",
		"{urls: ['nats://me:secret%zz@n:1']}":        "state creds or nkey",
		"{urls: [tls://n:1], tls: {cert: a}}":        "a cert needs its key",
		"{node: GPU}":                                "no name of a node",
		"{name: nobody}":                             "no name of a node",
		"{share: [{extensions: ['*'], as: theirs}]}": "as",
		"{share: [{extensions: ['*']}]}":             "mine, replicas or none",
		"{share: [{as: mine}]}":                      "extensions needs globs",
		"{use: [{nodes: ['*']}]}":                    "nodes and extensions need globs",
		"{operators: ['*']}":                         "cluster.operators[0]",
		"{pulse: 1ms}":                               "from 10ms to 5s",
		"{grace: 100ms}":                             "two pulses",
		"{silence: 1s}":                              "at least grace",
		"{max_calls: 0}":                             "less than 1",
		"{hub: {dir: x}}":                            "needs an address",
		"{hub: {listen: '7822'}}":                    "host:port",
		"{hub: {listen: 'x:0', peers: ['n:1']}}":     "cluster.hub.routes",
		"{hub: {listen: 'x:1', peers: [':1']}}":      "cluster.hub.peers[0]",
		"{nodes: x}":                                 "nodes",
	} {
		if cfg, wrong := load(t, "cluster: "+section); cfg != nil || !strings.Contains(wrong, want) ||
			!strings.HasPrefix(wrong, "host.yaml:1:") {
			t.Errorf("%s: %q, want %q", section, wrong, want)
		} else if strings.Contains(wrong, "secret") {
			t.Errorf("the error shows a password: %s", wrong)
		}
	}
}

// What State writes loads again, whatever the file had before.
func TestStateIsReadBack(t *testing.T) {
	for name, before := range map[string]string{
		"new.yaml": "",
		"had.yaml": "# mine\nserver:\n  listen: 127.0.0.1:0\n",
		"had.toml": "[server]\nlisten = \"127.0.0.1:0\"\n",
		"has.yaml": "cluster:\n  node: n1\n",
	} {
		file := filepath.Join(t.TempDir(), name)
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := cluster.State(file, "/keys/n1.creds", cluster.Hub{Listen: "0.0.0.0:7822", Dir: "/keys"}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cfg, err := config.Load(config.LoadOptions{
			File:      file,
			Dir:       t.TempDir(),
			Environ:   []string{},
			UserDir:   "none",
			SystemDir: "none",
		})
		if err != nil || cfg.Cluster.Join != "/keys/n1.creds" || cfg.Cluster.Hub.Listen != "0.0.0.0:7822" ||
			cfg.Cluster.Hub.Dir != "/keys" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
