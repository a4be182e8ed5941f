package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// reports is a native extension that reports progress at a call, and answers when a file go is beside it.
const reports = `
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
	id=${line#*\"id\":}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) answer '{"tools":[{"name":"work","input_schema":{"type":"object"}}],"hooks":[]}' ;;
	*'"notifications/'*) ;;
	*'"tools/call"'*)
		token=${line#*\"progressToken\":}; token=${token%%[,\}]*}
		printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,%s}}\n' "$token" \
			'"progress":1,"total":4,"message":"reading \u001b[31m"'
		until [ -e go ]; do sleep 0.02; done
		answer '{"content":[{"type":"text","text":"done"}]}' ;;
	*) answer '{}' ;;
	esac
done
`

// On a terminal exthost call shows the progress that a tool reports, whether a host runs or not. Its text is made safe.
func TestCallShowsProgress(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/slow/main.sh": reports,
		"extensions/slow/plugin.toml": "[plugin]\nid = \"slow\"\nversion = \"0.1.0\"\n[capabilities]\ntools = " +
			"[\"work\"]\n[transport]\ncommand = \"sh\"\nargs = [\"main.sh\"]\n",
	})
	proceed := filepath.Join(dir, "extensions/slow/go")
	for _, way := range []string{"alone", "running"} {
		if way == "running" {
			defer startServe(t, dir, "--trust", "off").end(t, os.Interrupt)
		}
		person, tty := terminal(t)
		cmd := program(dir, "call", "ext_slow_work", "--trust", "off")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, tty
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		timeout := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		shown := ""
		for told := false; ; {
			var buf [4096]byte
			n, err := person.Read(buf[:])
			if err != nil { // the program has ended
				break
			}
			if shown += string(buf[:n]); !told && strings.Contains(shown, `slow: 25 %, reading \u001b[31m (`) {
				told = true
				if err := os.WriteFile(proceed, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
		if err := cmd.Wait(); err != nil || out.String() != "done\n" {
			t.Errorf("%s: %v, %q; the person reads %q", way, err, out.String(), shown)
		}
		timeout.Stop()
		if err := os.Remove(proceed); err != nil {
			t.Fatal(err)
		}
	}
}
