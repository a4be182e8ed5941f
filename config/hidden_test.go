package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// The value of a variable that looks like a secret never shows, whatever key refers to it.
func TestExpandedSecretsAreHidden(t *testing.T) {
	environ := []string{
		"MY_SECRET=plain \"word\" 77",
		"DSN=db://u:canary77@h/x",
		"LISTEN_HOST=localhost",
		"PIN_TOKEN=77",
	}
	load := func(text string) (*config.Config, *config.Origins, string) {
		o := alone(write(t, map[string]string{"exthost.yaml": text}))
		o.Environ = environ
		cfg, origins, diags := loaded(o)
		said, err := json.Marshal(diags)
		if err != nil {
			t.Fatal(err)
		}
		return cfg, origins, string(said)
	}
	cfg, origins, said := load(`
extensions: {entries: {x: {config: {city: "${MY_SECRET}", list: ["a ${DSN}"], pin: "${PIN_TOKEN}"}, env: {FOO: "${MY_SECRET}"}}}}
hooks: [{event: before_tool_call, command: [echo, "--x=${MY_SECRET}"]}]
destinations: {d: {command: [serve, "${MY_SECRET}"], cwd: "/x/${MY_SECRET}"}}
server: {listen: "${LISTEN_HOST}:0"}
`)
	if cfg == nil {
		t.Fatal(said)
	}
	tree, err := json.Marshal([]any{cfg.Redacted(), cfg.Settings(origins)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"city":"${MY_SECRET}"`,
		`"--x=${MY_SECRET}"`,
		`"serve","${MY_SECRET}"`,
		`"localhost:0"`,
		`"pin":"77"`,
	} {
		if !strings.Contains(string(tree), want) {
			t.Errorf("%s is not shown: %s", want, tree)
		}
	}
	if got := cfg.Extensions.Entries["x"].Env["FOO"]; got != `plain "word" 77` {
		t.Errorf("the value in force is %q", got)
	}
	_, _, said = load(`
extensions: {max_depth: "${MY_SECRET}"}
log: {level: "${MY_SECRET}"}
server: {listen: "${DSN}"}
`)
	if !strings.Contains(said, "${MY_SECRET}") || !strings.Contains(said, "${DSN}") {
		t.Errorf("an error does not name the variable: %s", said)
	}
	for _, text := range []string{string(tree), said} {
		if strings.Contains(text, "word") || strings.Contains(text, "canary77") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
}
