//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/status"
)

// giveClient runs exthost client add or rotate, and returns the token.
func giveClient(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := program(dir, append(append([]string{"client"}, args...), "-o", "json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var answer struct{ Client struct{ Token string } }
	if err != nil || json.Unmarshal(out, &answer) != nil || !strings.HasPrefix(answer.Client.Token, "exthost_") {
		t.Fatalf("exthost client %v: %v, %s %s", args, err, out, &stderr)
	}
	return answer.Client.Token
}

func removeClient(t testing.TB, dir, name string) {
	t.Helper()
	if out, err := program(dir, "client", "remove", name).CombinedOutput(); err != nil {
		t.Fatalf("exthost client remove: %v, %s", err, out)
	}
}

// callersOf returns the sessions of the running host by caller, each with caller, front and revision of MCP.
func callersOf(t testing.TB, dir string) map[string][]string {
	t.Helper()
	out, err := program(dir, "status", "-o", "json").Output()
	var s struct{ Status status.Status }
	if err != nil || json.Unmarshal(out, &s) != nil {
		t.Fatalf("exthost status: %v, %s", err, out)
	}
	all := map[string][]string{}
	for _, c := range s.Status.Clients {
		if c.Session != "" && c.Since.IsZero() {
			t.Errorf("%+v has no beginning", c)
		}
		all[c.Caller] = append(all[c.Caller], strings.TrimSpace(c.Front+" "+c.Protocol))
	}
	return all
}

// withBearer adds a token to every request.
type withBearer string

func (token withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// connectAs connects an official client of each revision of MCP with a token.
func connectAs(t *testing.T, url, token string) map[string]*mcp.ClientSession {
	t.Helper()
	h := &http.Client{Transport: withBearer(token)}
	sessions := map[string]*mcp.ClientSession{}
	for version, transport := range map[string]mcp.Transport{
		"2025-11-25": &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: h},
		"2026-07-28": &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: h},
		"2024-11-05": &mcp.SSEClientTransport{Endpoint: strings.TrimSuffix(url, "/mcp") + "/sse", HTTPClient: h},
	} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), transport,
			&mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		t.Cleanup(func() { _ = session.Close() })
		sessions[version] = session
	}
	return sessions
}

func say(t *testing.T, s *mcp.ClientSession) error {
	_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ext_kit_say", Arguments: map[string]any{"n": 1}})
	return err
}

// Two clients get tokens while a host runs; one is removed, the other gets a new token. The tokens appear nowhere but
// on stdout.
func TestClientOverHTTP(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest,
		"exthost.yaml":               "audit: {path: audit.jsonl}\nlog: {file: host.log, level: trace}\n",
	})
	s := startServe(t, dir)
	tokens := []string{giveClient(t, dir, "add", "ada"), giveClient(t, dir, "add", "bob")}
	ada, bob := connectAs(t, s.url, tokens[0]), connectAs(t, s.url, tokens[1])
	for version := range ada {
		for name, err := range map[string]error{"ada": say(t, ada[version]), "bob": say(t, bob[version])} {
			if err != nil {
				t.Errorf("%s, %s: %v", name, version, err)
			}
		}
	}
	all := callersOf(t, dir)
	for _, name := range []string{"ada", "bob"} {
		if got := strings.Join(all[name], ", "); !strings.Contains(got, "http 2025-11-25") ||
			!strings.Contains(got, "sse 2024-11-05") || !strings.Contains(got, "2026-07-28") {
			t.Errorf("%s is connected as %s", name, got)
		}
	}
	if out, err := program(dir, "status").Output(); err != nil || !strings.Contains(string(out), "CALLER") {
		t.Errorf("%v\n%s", err, out)
	}
	removeClient(t, dir, "ada")
	tokens = append(tokens, giveClient(t, dir, "rotate", "bob", "--keep", "1h"))
	for version := range ada {
		if say(t, ada[version]) == nil {
			t.Errorf("%s: a client that was removed is served", version)
		}
		if err := say(t, bob[version]); err != nil {
			t.Errorf("%s: a client with an old token that holds: %v", version, err)
		}
	}
	if _, left := callersOf(t, dir)["ada"]; left &&
		!strings.HasPrefix(strings.Join(callersOf(t, dir)["ada"], ""), "2026") {
		t.Errorf("the client that was removed is connected: %v", callersOf(t, dir))
	}
	tokens = append(tokens, giveClient(t, dir, "rotate", "bob"))
	for version := range bob {
		if say(t, bob[version]) == nil {
			t.Errorf("%s: an old token is served", version)
		}
	}
	for version, session := range connectAs(t, s.url, tokens[3]) {
		if err := say(t, session); err != nil {
			t.Errorf("%s: the new token: %v", version, err)
		}
		_ = session.Close()
	}
	audit, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil || !bytes.Contains(audit, []byte(`"caller":"ada"`)) ||
		!bytes.Contains(audit, []byte(`"caller":"bob"`)) {
		t.Errorf("%v\n%s", err, audit)
	}
	var shown []byte
	for _, args := range [][]string{
		{"status", "-o", "json"},
		{"client", "list", "-o", "json"},
		{"logs"},
		{"config", "show"},
		{"audit", "query"},
	} {
		out, _ := program(dir, args...).CombinedOutput()
		shown = append(shown, out...)
	}
	s.end(t, os.Interrupt)
	shown = append(shown, s.stderr.String()...)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if text, err := os.ReadFile(path); err == nil && d.Type().IsRegular() {
			shown = append(shown, text...)
		}
		return nil
	})
	for _, token := range tokens {
		if bytes.Contains(shown, []byte(strings.TrimPrefix(token, "exthost_"))) {
			t.Error("a token is in a file or in what a command shows")
		}
	}
}

// Clients on stdio get names, and one is removed.
func TestClientOnStdio(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest,
		"exthost.yaml":               "audit: {path: audit.jsonl}\n",
	})
	defer stopHosts(t, dir)
	giveClient(t, dir, "add", "ada")
	giveClient(t, dir, "add", "bob")
	ada, bob, nobody := startClient(t, dir, "--as", "ada"), startClient(t, dir, "--as", "bob"), startClient(t, dir)
	clients := []*client{ada, bob, nobody}
	works := func(c *client) {
		t.Helper()
		if answer := c.say(t, call(1, "ext_kit_say", `{"n":1}`)); !strings.Contains(answer, `"result"`) {
			t.Errorf("it answers %s", answer)
		}
	}
	for _, c := range clients {
		c.open(t)
		works(c)
	}
	oneHost(t, dir)
	all := callersOf(t, dir)
	if len(all) != 3 || strings.Join(all["ada"], "") != "stdio 2025-11-25" ||
		strings.Join(all["bob"], "") != "stdio 2025-11-25" {
		t.Errorf("connected: %v", all)
	}
	giveClient(t, dir, "rotate", "bob") // does not affect a client without a token
	removeClient(t, dir, "ada")
	answer := ada.say(t, call(2, "ext_kit_say", `{"n":1}`))
	if !strings.Contains(answer, `there is no client`) && !strings.Contains(answer, "has ended") {
		t.Errorf("a client that was removed gets %s", answer)
	}
	if answer := ada.say(t, call(3, "ext_kit_say", `{"n":1}`)); !strings.Contains(answer, `there is no client`) {
		t.Errorf("a client that was removed gets %s", answer)
	}
	works(bob)
	works(nobody)
	giveClient(t, dir, "add", "ada")
	works(ada) // its relay has opened its session again
	for _, c := range clients {
		c.leave(t)
	}
	oneHost(t, dir)
	audit, _ := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	for _, want := range []string{`"caller":"ada"`, `"caller":"bob"`, `"caller":"stdio:`} {
		if !bytes.Contains(audit, []byte(want)) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
}

// An extension cannot be a client on stdio, neither in its own host nor in one that it starts.
func TestClientIsNoExtension(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell which process connects")
	}
	processtest.Leaks(t)
	processtest.Needs(t, "setsid")
	dir := project(t, nil)
	const as = "exthost serve --stdio --as ada </dev/null 2>&1; echo code $?"
	manifest := strings.Replace(kitManifest, `command = "cat"`, `command = "true"`, 1)
	for _, how := range []struct{ name, command string }{
		{"plain", as}, {"own", strings.Replace(as, "--stdio", "--stdio --own", 1)},
		{"bare", "env -i EXTHOST_TRUST=off PATH=$PATH HOME=$HOME XDG_STATE_HOME=$XDG_STATE_HOME " +
			"XDG_CONFIG_HOME=$XDG_CONFIG_HOME " + as},
		{"bareown", "env -i EXTHOST_TRUST=off PATH=$PATH HOME=$HOME XDG_STATE_HOME=$XDG_STATE_HOME " +
			"XDG_CONFIG_HOME=$XDG_CONFIG_HOME setsid -w " + strings.Replace(as, "--stdio", "--stdio --own", 1)},
	} {
		command, _ := json.Marshal([]string{
			"sh",
			"-c",
			fmt.Sprintf("cd %s; export XDG_STATE_HOME=%[1]s/state XDG_CONFIG_HOME=%[1]s/config-home HOME=%[1]s; %s",
				dir, how.command),
		})
		manifest += fmt.Sprintf("[[tools]]\nname = %q\ndescription = \"Would be ada.\"\ncommand = %s\n", how.name,
			command)
	}
	if err := os.MkdirAll(filepath.Join(dir, "extensions/kit"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "extensions/kit/plugin.toml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	defer stopHosts(t, dir)
	giveClient(t, dir, "add", "ada")
	c := startClient(t, dir)
	c.open(t)
	for id, how := range []string{"plain", "own", "bare", "bareown"} {
		if answer := c.say(t, call(id, "ext_kit_"+how, `{}`)); !strings.Contains(answer, "code 6") ||
			!strings.Contains(answer, "--as is for clients") {
			t.Errorf("an extension that would be ada, %s: %s", how, answer)
		}
	}
	if all := callersOf(t, dir); len(all) != 1 || all["ada"] != nil {
		t.Errorf("connected: %v", all)
	}
	c.leave(t)
	oneHost(t, dir)
}

// The sessions of all hosts of a directory are counted.
func TestClientsOfSeveralHosts(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest,
		"other/kit/plugin.toml":      kitManifest,
		"third/kit/plugin.toml":      kitManifest,
	})
	defer stopHosts(t, dir)
	token := giveClient(t, dir, "add", "ada")
	giveClient(t, dir, "add", "bob")
	s := startServe(t, dir)
	over := connectAs(t, s.url, token)
	ada, bob := startClient(t, dir, "--as", "ada", "--extensions", "other"), startClient(t, dir, "--as", "bob",
		"--extensions", "third")
	ada.open(t)
	bob.open(t)
	var list struct {
		Clients []struct {
			Name     string
			Sessions int
			LastUsed string `json:"last_used"`
		}
	}
	out, err := program(dir, "client", "list", "-o", "json").Output()
	if err != nil || json.Unmarshal(out, &list) != nil || len(list.Clients) != 2 || list.Clients[0].Sessions != 3 ||
		list.Clients[1].Sessions != 1 || list.Clients[1].LastUsed == "" {
		t.Errorf("client list: %v, %s", err, out)
	}
	if all := callersOf(t, dir); len(all["ada"]) < 3 ||
		!strings.Contains(strings.Join(all["ada"], ", "), "stdio 2025-11-25") ||
		strings.Join(all["bob"], "") != "stdio 2025-11-25" {
		t.Errorf("status: %v", all)
	}
	if out, err := program(dir, "status").Output(); err != nil || !regexp.MustCompile(`(?m)^bob +1 +stdio`).Match(out) {
		t.Errorf("status: %v, %s", err, out)
	}
	for _, session := range over {
		_ = session.Close()
	}
	for _, c := range []*client{ada, bob} {
		c.leave(t)
	}
	s.end(t, os.Interrupt)
}

// Named clients with hosts of their own are counted, and their sessions end when the client is removed.
func TestClientsOfTheirOwnHosts(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	giveClient(t, dir, "add", "ada")
	giveClient(t, dir, "add", "bob")
	var ada []*client
	for range 3 {
		c := startClient(t, dir, "--own", "--as", "ada")
		c.open(t)
		ada = append(ada, c)
	}
	bob := startClient(t, dir, "--own", "--as", "bob")
	bob.open(t)
	if out, err := program(dir, "client", "list").Output(); err != nil ||
		!regexp.MustCompile(`(?m)^ada .* 3  +\d`).Match(out) || !regexp.MustCompile(`(?m)^bob .* 1  +\d`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
	removeClient(t, dir, "ada")
	for _, c := range ada {
		if err := c.Wait(); err != nil {
			t.Errorf("the host of a client that was removed: %v", err)
		}
	}
	if answer := bob.say(t, call(1, "ext_kit_say", `{"n":1}`)); !strings.Contains(answer, `"result"`) {
		t.Errorf("another client: %s", answer)
	}
	bob.leave(t)
}
