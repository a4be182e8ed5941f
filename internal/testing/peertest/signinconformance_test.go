package peertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// authScenarios are the suite's scenarios about signing in that a revision requires of a client. The scenario of the
// oldest revision for servers without any metadata is left out, as later revisions forbid to sign in where the metadata
// do not promise PKCE. So are scenarios of extensions of MCP, about ways of signing in that exthost does not offer,
// such as client credentials.
var authScenarios = map[string][]string{
	"2025-03-26": {"2025-03-26-oauth-metadata-backcompat"},
	"2025-11-25": legacyAuth,
	"2026-07-28": append([]string{"resource-mismatch", "offline-access-scope", "offline-access-not-supported",
		"authorization-server-migration", "iss-supported",
		"iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected", "iss-normalized",
		"metadata-issuer-mismatch"}, legacyAuth...),
}

var legacyAuth = []string{"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd",
	"scope-from-www-authenticate", "scope-from-scopes-supported",
	"scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic",
	"token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration"}

// programVar names the variable with the path of the exthost under test, for the client.
const programVar = "EXTHOST_PEERTEST_PROGRAM"

// TestSignInConformance runs the official suite's scenarios about signing in: a user calls a tool of a
// remote server, and signs in with the command that the error names.
func TestSignInConformance(t *testing.T) {
	p := needPeers(t)
	client, env := processtest.Script(t, "signinClient")
	for revision, scenarios := range authScenarios {
		for _, scenario := range scenarios {
			t.Run(revision+"/"+scenario, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, p.bin("node"), p.bin("conformance"), "client", "--command", client,
					"--timeout", "60000",
					"--scenario", "auth/"+scenario, "--spec-version", revision)
				cmd.Dir = t.TempDir()
				cmd.Env = append(p.environ(t.TempDir()), append(env, programVar+"="+program(t))...)
				out, err := cmd.CombinedOutput()
				if err != nil || !passed.Match(out) {
					session, _ := os.ReadFile(filepath.Join(cmd.Dir, transcriptFile))
					t.Errorf("%v\n%s\n%s", err, out, session)
				}
				t.Logf("%s", passed.Find(out))
			})
		}
	}
}

// transcriptFile is where the client writes what a user would see.
const transcriptFile = "transcript"

// passed matches what the suite says of a scenario without failures.
var passed = regexp.MustCompile(`(?m)^Passed: ([1-9]\d*)/\d+, 0 failed, 0 warnings`)

// next matches the command with which an error tells to sign in.
var next = regexp.MustCompile(`exthost (secret login remote(?: --scope \S+)?)`)

// maxLogins is how often the user of the scripted client signs in before giving up.
const maxLogins = 3

// signInClient is a client for the suite: exthost, and a user who does what exthost says. The server's
// URL is the last argument.
func signInClient() {
	home, err := os.MkdirTemp("", "exthost-signin-")
	if err != nil {
		panic(err)
	}
	out, err := os.Create(transcriptFile)
	if err != nil {
		panic(err)
	}
	code := useRemote(out, home, os.Args[len(os.Args)-1])
	out.Close()
	os.RemoveAll(home)
	os.Exit(code)
}

// useRemote calls a tool of the server and returns the exit code of the last command.
func useRemote(shown io.Writer, home, url string) (code int) {
	var context struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &context) // most scenarios have none
	addRemote(home, url, fmt.Sprintf("\n[transport.oauth]\nclient_id = %q\nclient_secret = %q\n"+
		"client_metadata_url = %q\n", context.ID, context.Secret,
		"https://conformance-test.local/client-metadata.json"))
	for logins := 0; ; logins++ {
		out, code := exthost(shown, home, "call", "ext_remote_test-tool")
		command := next.FindSubmatch(out)
		if command == nil || logins == maxLogins {
			return code
		}
		if _, code := exthost(shown, home, strings.Fields(string(command[1]))...); code != 0 {
			return code
		}
	}
}

// addRemote adds the server at url as an extension of the folder in home.
func addRemote(home, url, more string) {
	dir := filepath.Join(home, "extensions", "remote")
	text := fmt.Sprintf("[plugin]\nid = \"remote\"\nversion = \"0.1.0\"\n\n[transport]\nurl = %q\n", url) + more
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(text), 0o644)); err != nil {
		panic(err)
	}
}

// exthost runs the program and shows what it writes.
func exthost(shown io.Writer, home string, args ...string) (out []byte, code int) {
	cmd := exec.Command(os.Getenv(programVar), append(args, "--extensions", filepath.Join(home, "extensions"))...)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "BROWSER="+os.Args[0], processtest.Env("approve")[0])
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	fmt.Fprintf(shown, "$ exthost %s\n%s%v\n", strings.Join(args, " "), &b, err)
	return b.Bytes(), cmd.ProcessState.ExitCode()
}

// approve is a browser whose user approves at once.
func approve() {
	resp, err := http.Get(os.Args[len(os.Args)-1])
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
}
