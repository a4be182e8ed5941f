package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const (
	canary    = "hunter2-canary-of-the-store"
	canarySum = "2099563732 27" // cksum of the canary
)

// talkativeManifest has a tool that prints its secret on stderr and fails on request.
const talkativeManifest = `
[plugin]
id = "given"
version = "0.1.0"
[transport]
kind = "exec"
command = "sh"
[[tools]]
name = "sum"
command = ["sh", "-c", "echo trouble with \"$TOKEN\" >&2; printf %s \"$TOKEN\" | cksum"]
[[tools]]
name = "fail"
command = ["sh", "-c", "echo trouble with \"$TOKEN\" >&2; exit 3"]
`

// A secret reaches the child that it is for, and appears nowhere else: not in the log, the journal, the status, a tap,
// the metrics, the audit log, an error, the shown configuration or any file of the host.
func TestStoredSecretsAppearNowhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sh is needed")
	}
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/given/plugin.toml":     talkativeManifest,
		"config-home/exthost/exthost.yaml": "extensions: {entries: {given: {env: {TOKEN: 'secret://github'}}}}\n",
		"exthost.yaml":                     "audit: {path: audit.jsonl}\nlog: {file: host.log, level: trace}\n",
	})
	set := program(dir, "secret", "set", "github")
	set.Stdin = strings.NewReader(canary + "\n")
	if out, err := set.CombinedOutput(); err != nil || bytes.Contains(out, []byte(canary)) {
		t.Fatalf("%v: %s", err, out)
	}
	s := startServe(t, dir)
	tap := program(dir, "logs", "--wire")
	seen := &transcript{more: make(chan struct{}, 1)}
	tap.Stdout = seen
	if err := tap.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(patience, func() { tap.Process.Kill() })
	defer timeout.Stop()
	for seen.String() == "" { // until the tap listens
		if got := s.call(t, "ext_given_sum", `{}`); !strings.Contains(got, canarySum) {
			t.Fatalf("the child did not get it: %s", got)
		}
	}
	said := map[string]string{"the failure": s.call(t, "ext_given_fail", `{}`)}
	_, said["the metrics"] = request(t, strings.TrimSuffix(s.url, "/mcp")+"/metrics", "")
	for _, args := range [][]string{
		{"status", "-o", "json"}, {"status", "given", "-o", "json"}, {"logs", "--level", "trace", "-o", "json"},
		{"calls", "audit", "-o", "json"}, {"config", "show", "-o", "json"},
		{"secret", "list", "-o", "json"}, {"check", "-o", "json"}, {"validate"},
	} {
		out, err := program(dir, args...).Output()
		if len(out) == 0 || err != nil {
			t.Errorf("%q is not put to the test: %v", args, err)
		}
		said[strings.Join(args, " ")] = string(out)
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("exit code %d", code)
	}
	_ = tap.Wait() // ends with the host
	said["the log"], said["the tap"] = s.stderr.String(), seen.String()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		said[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, who := range []string{
		"host.log",
		"audit.jsonl",
		"config-home/exthost/secrets/secrets.age",
		"config-home/exthost/secrets/identity",
	} {
		if said[who] == "" {
			t.Errorf("%s is not put to the test", who)
		}
	}
	if !strings.Contains(said["host.log"], "trouble with ***") {
		t.Errorf("the log has nothing that was masked: %s", said["host.log"])
	}
	for who, text := range said {
		if strings.Contains(text, canary) {
			t.Errorf("%s has the secret: %s", who, text)
		}
	}
}
