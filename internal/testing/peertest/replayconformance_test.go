package peertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReplayedConformance records a run of the official conformance suite, and runs the suite once more against a
// replay of the recording. Every check of every scenario, scored or not, must have the same outcome. What the suite
// checks of HTTP applies to the host in both runs. The suite makes up no params of requests that reach the server, so
// the strict replay finds each request.
func TestReplayedConformance(t *testing.T) {
	needPeers(t)
	server := buildEverything(t)
	for name, c := range map[string]struct{ mode, revision string }{
		"stdio, legacy": {"", legacyVersion}, "stdio, modern": {"", modernVersion},
		"sessions": {"-stateless=false", legacyVersion}, "stateless": {"-stateless=true", modernVersion},
	} {
		t.Run(name, func(t *testing.T) {
			cassette := filepath.Join(t.TempDir(), "suite.cassette")
			config := filepath.Join(t.TempDir(), "record.yaml")
			if err := os.WriteFile(config, fmt.Appendf(nil, "record: {file: %q}\n", cassette), 0o600); err != nil {
				t.Fatal(err)
			}
			transport := fmt.Sprintf("command = %q\nprotocol = \"mcp\"", server)
			if c.mode != "" {
				transport = fmt.Sprintf("url = %q", serveEverything(t, server, c.mode))
			}
			counts, outcomes := outcomesOf(t, "recorded", c.revision, transport, "--config", config)
			again, replayed := outcomesOf(t, "replayed", c.revision,
				fmt.Sprintf("kind = \"replay\"\nfile = %q", cassette))
			if diff := cmp.Diff(outcomes, replayed); diff != "" || counts != again || len(outcomes) == 0 {
				t.Errorf("%s, replayed %s, (-recorded +replayed):\n%s", counts, again, diff)
			}
			if text, err := os.ReadFile(cassette); err != nil || bytes.Contains(text, []byte(`"omitted"`)) {
				t.Errorf("frames are missing from the recording, %v:\n%s", err, text)
			}
			t.Logf("%d scenarios, %s", len(outcomes), again)
		})
	}
}

// outcomesOf runs the suite against a host with one extension, and ends the host. It returns the line that counts the
// tests, and the checks of each scenario with their status.
func outcomesOf(t *testing.T, name, revision, transport string, flags ...string,
) (counts string, outcomes map[string][]string) {
	t.Helper()
	outcomes = make(map[string][]string)
	t.Run(name, func(t *testing.T) {
		dir := t.TempDir()
		h := newHost(t, dir)
		folder(dir).add(t, "child", transport)
		var results string
		counts, results = h.conforms(t, h.listen(t, flags...)+"/child/mcp", revision)
		files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			scenario := timeOfRun.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
			outcomes[scenario] = checks(t, file)
		}
	})
	return counts, outcomes
}

// timeOfRun matches the end of the name of a scenario's directory.
var timeOfRun = regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`)

// checks returns the checks of a scenario, sorted: what runs at once has no order.
func checks(t *testing.T, file string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var read []struct{ ID, Status string }
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	for _, c := range read {
		list = append(list, c.ID+" "+c.Status)
	}
	slices.Sort(list)
	return list
}
