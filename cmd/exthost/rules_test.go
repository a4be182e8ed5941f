package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// Changes of rules are shown before exthost trust asks, after exthost reload and in the log of a reload by SIGHUP, with
// the warning that a misspelt name selects nothing.
func TestChangedRules(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup, and so it is by the program")
	}
	processtest.Leaks(t)
	rules := func(effect, tool string) string {
		return "plugins:\n- name: access\n  builtin: access\n  category: authorization\n  config: {rules: [{effect: " +
			effect + ", tools: [" + tool + "]}]}\n"
	}
	const old, typo = `- policy access: config.rules: {"effect":"deny","tools":["ext_kit_say"]}`,
		`+ policy access: config.rules: {"effect":"deny","tools":["ext_kit_sya"]}`
	const warning = `"ext_kit_sya" of config.rules[0].tools matches no tool`
	shows := func(what, text string, wants ...string) {
		t.Helper()
		text = strings.Join(strings.Fields(text), " ") // output is wrapped
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s shows no %s:\n%s", what, want, text)
			}
		}
	}
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest,
		"exthost.yaml":               rules("deny", "ext_kit_say"),
	})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "exthost.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust := func() string {
		t.Helper()
		cmd := program(dir, "trust", "--all", "--yes")
		cmd.Env = append(cmd.Env, "EXTHOST_TRUST=ask")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	trust()
	s := startServe(t, dir)
	write(rules("deny", "ext_kit_sya"))
	out, err := program(dir, "reload").CombinedOutput()
	if err != nil {
		t.Errorf("reload: %v", err)
	}
	shows("reload", string(out), "changed policy access", old, typo, warning)
	shows("trust", trust(), old, typo, warning)
	write(rules("allow", "ext_kit_say"))
	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.stderr.await(t, `+ policy access: config.rules: {\"effect\":\"allow\"`)
	write(rules("deny", "ext_kit_yas"))
	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.stderr.await(t, `\"ext_kit_yas\" of config.rules[0].tools matches no tool`)
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("the host: exit code %d, %s", code, s.stderr)
	}
}
