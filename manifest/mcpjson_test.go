package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/strict"
)

func TestNotationsOfOtherClients(t *testing.T) {
	f := mcpFile{&strict.Report{Code: "wrong"}}
	root, refusal := strict.JSON(strict.NewSource("f", []byte(`{"other": 1, "mcpServers": {
  "a": {"transport": "sse", "url": "${env:HOST}/x", "headers": {"K": "${env:KEY}"}},
  "b": {"httpUrl": "https://b", "url": "https://sse"},
  "c": {"command": "c", "args": ["${input:x}"], "disable": true},
  "d": {"command": "d", "disabled": true},
  "e": {"args": "x"},
  "f": 1
}, "servers": []}`)), strict.Rules{AtKeys: true})
	if refusal != nil {
		t.Fatal(refusal)
	}
	servers, ok := f.servers(root)
	if !ok || len(servers) != 6 {
		t.Fatal(servers, ok)
	}
	got := map[string]mcpDefinition{}
	for _, s := range servers {
		if f.decode(s) {
			got[s.path] = s.definition
		}
		if asks := s.name == "c"; asks != s.asksUser {
			t.Errorf("%s asks: %t", s.name, s.asksUser)
		}
	}
	want := map[string]mcpDefinition{
		"mcpServers.a": {Type: "sse", URL: "${HOST}/x", Headers: map[string]string{"K": "${KEY}"}},
		"mcpServers.b": {Type: "http", URL: "https://b", HTTPURL: "https://b"},
		"mcpServers.c": {Command: "c", Args: []string{"${input:x}"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := servers[0].at("type"); at.Line != 2 || at.Column != 9 {
		t.Errorf("the alias is at %+v", at)
	}
	if at := servers[0].at("command"); at.Line != 2 || at.Column != 3 {
		t.Errorf("a key that is missing is at %+v", at)
	}
	var said strings.Builder
	for _, d := range f.Diagnostics {
		said.WriteString(d.Code + " " + d.String() + "\n")
	}
	wantSaid := `sidecar_note f:1:2: "other" is not used
wrong f:8:4: servers: want an object of servers
sidecar_note f:4:49: unknown key "disable" in [mcpServers.c]; did you mean "disabled"?
sidecar_note f:5:3: mcpServers.d is disabled in the file
wrong f:6:9: mcpServers.e.args: want an array of strings, got a string
wrong f:7:3: mcpServers.f: want an object
`
	if diff := cmp.Diff(wantSaid, said.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileWithoutServersIsAnError(t *testing.T) {
	f := mcpFile{&strict.Report{}}
	if servers, ok := f.servers(&strict.Node{Kind: strict.Map}); ok || servers != nil || len(f.Diagnostics) != 1 {
		t.Error(servers, ok, f.Diagnostics)
	}
}
