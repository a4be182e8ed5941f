package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// confinedManifest has an extension that connects to a host, reads a system file and writes to its own folder.
const confinedManifest = `
[plugin]
id = "curious"
version = "0.1.0"
[transport]
kind = "exec"
[[tools]]
name = "run"
description = "Asks a host, reads a file and writes one."
command = ["bash", "-c", """
exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:} &&
printf 'CONNECT api.example.com:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3 && read -r line <&3
cat /etc/shells; echo x > data/new; true"""]
`

// needSandbox skips the test if the kernel enforces no sandbox.
func needSandbox(t *testing.T) {
	t.Helper()
	if _, err := new(sandbox.Policy).Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
}

// check --sandbox reports what was denied as lines of [sandbox]. With these lines nothing is denied.
func TestCheckSandbox(t *testing.T) {
	needSandbox(t)
	processtest.Leaks(t)
	processtest.Needs(t, "bash")
	files := map[string]string{
		"curious/plugin.toml": confinedManifest,
		"curious/check.json":  `{"calls": [{"tool": "run"}]}`,
		"curious/data/x":      "",
	}
	out, _ := ask(t, project(t, files), "check", "--sandbox", "curious")
	if strings.Contains(out, "was not watched") {
		t.Skipf("NOT TESTED: %s: %s", t.Name(), out)
	}
	var lines []string
	for line := range strings.Lines(out) {
		if _, line, ok := strings.Cut(line, "→ "); ok && strings.Contains(line, " = [") {
			lines = append(lines, line)
		}
	}
	if got, want := strings.Join(lines,
		""), "read = [\"/etc/shells\"]\nwrite = [\"{state}\", \"./data\"]\nnet = [\"api.example.com:443\"]\n"; got !=
		want {
		t.Errorf("%s\n%s", got, out)
	}
	files["curious/plugin.toml"] += "[sandbox]\n" + strings.Join(lines, "")
	out, _ = ask(t, project(t, files), "check", "--sandbox", "curious")
	if !strings.Contains(out, "1 calls, nothing refused") {
		t.Errorf("%s", out)
	}
	if out, _ := ask(t, project(t, files), "check", "curious"); strings.Contains(out, "refused") {
		t.Errorf("without the flag: %s", out)
	}
}

// keeper is a package whose tool makes a temporary file and reads the directory of its argument.
const keeper = `#!/bin/sh
while read -r line; do
	case $line in *'"id":'*) ;; *) continue ;; esac
	id=${line#*\"id\":}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) is='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"k","version":"1"}}' ;;
	*'"tools/list"'*) is='"result":{"tools":[{"name":"note","inputSchema":{"type":"object"}}]}' ;;
	*'"note"'*) mktemp && ls "${1%/*}" && is='"result":{"content":[]}' || is='"error":{"code":1,"message":"refused"}' ;;
	*) is='"error":{"code":-32601,"message":"no"}' ;;
	esac >&2
	echo '{"jsonrpc":"2.0","id":'$id','$is'}'
done
`

// check --sandbox finds the files of a package, whose plugin.toml differs from exthost.lock while its user tries a
// [sandbox], and proposes neither its state directory in its arguments nor its temporary directory.
func TestCheckSandboxOfAPackage(t *testing.T) {
	needSandbox(t)
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"keeper/manifest.json": `{"name": "keeper", "version": "1.0.0", "server": ` +
			`{"type": "binary", "mcp_config": {"command": "server/run"}}}`,
		"keeper/server/run":            keeper,
		"extensions/keeper/check.json": `{"calls": [{"tool": "note"}]}`,
	})
	if out, code := ask(t, dir, "add", "./keeper", "--yes"); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	path := filepath.Join(dir, "extensions/keeper/plugin.toml")
	added, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tried := strings.Replace(string(added), "args = []", "args = [\"${EXTHOST_STATE_DIR}/notes\"]", 1) + "[sandbox]\n"
	if err := os.WriteFile(path, []byte(tried), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := ask(t, dir, "check", "--sandbox", "extensions/keeper")
	if !strings.Contains(out, "1 calls, nothing refused") && !strings.Contains(out, "1 calls; it asked for /proc") {
		t.Errorf("%s%s", tried, out)
	}
}

// status, status ID and check show what the kernel enforces, and that a remote server has no sandbox.
func TestSandboxShown(t *testing.T) {
	needSandbox(t)
	processtest.Leaks(t)
	manifest := func(id, table string) string {
		return strings.Replace(confinedManifest, `"curious"`, `"`+id+`"`, 1) + table
	}
	dir := project(t, map[string]string{
		"extensions/boxed/plugin.toml": manifest("boxed", "[sandbox]\nread = [\"/srv\"]\n"),
		"extensions/free/plugin.toml":  manifest("free", ""),
		"extensions/temporary/plugin.toml": strings.NewReplacer(`"curious"`, `"temporary"`, "exec 3<>",
			"mktemp; touch $EXTHOST_STATE_DIR/x || exit 1; exec 3<>").Replace(confinedManifest) +
			"[sandbox]\n[runtime]\nisolate = \"pid\"\n",
		"extensions/far/plugin.toml": "[plugin]\nid = \"far\"\nversion = \"0.1.0\"\n[transport]\nurl = " +
			"\"http://127.0.0.1:1/mcp\"\n[sandbox]\n",
	})
	const enforced = "in a sandbox: files, signals, system calls, network"
	s := startServe(t, dir)
	if out, _ := ask(t, dir, "status"); strings.Count(out, enforced) != 2 {
		t.Errorf("status:\n%s", out)
	}
	out, _ := ask(t, dir, "status", "boxed")
	if !strings.Contains(out, "enforced: files, signals, system calls, network") || !strings.Contains(out, "/srv") {
		t.Errorf("info:\n%s", out)
	}
	if out, _ := ask(t, dir, "check"); !strings.Contains(out, "this system enforces files, signals, system calls") {
		t.Errorf("check:\n%s", out)
	}
	said, err := program(dir, "call", "ext_temporary_run").CombinedOutput()
	if out = string(said); strings.Contains(out, "pid namespace") {
		t.Logf("NOT TESTED: what is refused with namespaces: %s", out)
	} else {
		if err == nil || !strings.Contains(out, "temporary/x': Read-only file system; its sandbox may have refused") ||
			!strings.Contains(out, "exthost check --sandbox") || strings.Contains(out, "mktemp") {
			t.Errorf("call: %v\n%s", err, out)
		}
		for _, command := range [][]string{{"status", "temporary"}, {"status"}, {"check"}, {"logs"}} {
			out, _ := ask(t, dir, command...)
			if !strings.Contains(out, "exthost check --sandbox") || !strings.Contains(out, "temporary/x'") {
				t.Errorf("%s:\n%s", command, out)
			}
		}
	}
	s.end(t, os.Interrupt)
}
