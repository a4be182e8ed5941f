package peertest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestClientsAreAsked has every client show the form for an approval, in each way in which its versions ask: each
// answer has one outcome. A client without forms waits for operators.
func TestClientsAreAsked(t *testing.T) {
	h := newHost(t, bundled(t))
	user := filepath.Join(h.home, ".config", "exthost")
	if err := os.MkdirAll(user, 0o700); err != nil {
		t.Fatal(err)
	}
	// each has a name of its own, since a client that answers so fast ten times in a row is asked no more
	named := "server:\n  clients:\n"
	for _, client := range clients {
		for _, versions := range client.versions {
			named += "    " + client.name + "-" + versions + ": {approves: [read, write]}\n"
		}
	}
	if err := os.WriteFile(filepath.Join(user, "exthost.yaml"), []byte(named+`plugins:
  - name: ask
    category: authorization
    builtin: approval
    match: {tools: [ext_echo_*]}
    config: {where: client, expiry: 2s}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	calls := []call{{"ext_echo_echo", args{"text": "asked"}}}
	for _, client := range clients {
		for _, p := range endpoints {
			if p.Transport != "stdio" || !slices.Contains(client.versions, p.Versions) {
				continue
			}
			for answer, want := range map[string]string{
				"accept": "", "decline": "not approved by " + client.name, "cancel": "the question was dismissed",
				"": "nobody approved it within 2s",
			} {
				if (client.name == "inspector") != (answer == "") { // its command line shows no forms
					continue
				}
				p.Answer = answer
				t.Run(strings.Join([]string{client.name, p.Versions, answer}, "/"), func(t *testing.T) {
					at := p
					at.Command = h.argv("--stdio", "--as", client.name+"-"+p.Versions)
					at.Env = map[string]string{"GORACE": promptExit, "HOME": h.home}
					v := client.report(t, h, at, calls)
					if len(v.Calls) != 1 {
						t.Fatalf("%d answers", len(v.Calls))
					}
					if want == "" {
						says("asked")(t, v.Calls[0])
					} else {
						fails(want)(t, v.Calls[0])
					}
				})
			}
		}
	}
}
