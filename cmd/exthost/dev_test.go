package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// devSession is a running exthost dev.
type devSession struct {
	*exec.Cmd
	t    *testing.T
	dir  string // of the extension
	in   io.WriteCloser
	said *transcript
}

// startDev runs exthost dev on a directory, without a terminal.
func startDev(t *testing.T, project, dir string, args ...string) *devSession {
	t.Helper()
	s := &devSession{
		Cmd:  program(project, append([]string{"dev", dir}, args...)...),
		t:    t,
		dir:  filepath.Join(project, dir),
		said: &transcript{more: make(chan struct{}, 1)},
	}
	s.Stdout, s.Stderr = s.said, s.said
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.ProcessState != nil { // the test has waited
			return
		}
		_ = s.Process.Signal(os.Interrupt)
		if err := s.Wait(); err != nil {
			t.Errorf("exthost dev: %v\n%s", err, s.said)
		}
	})
	return s
}

func (s *devSession) say(line string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		s.t.Fatal(err)
	}
}

// save replaces a file of the extension atomically, as a careful editor does.
func (s *devSession) save(name, text string) {
	s.t.Helper()
	aside := filepath.Join(s.dir, "."+name+"~")
	if err := os.WriteFile(aside, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(aside, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// serverSaying is an MCP server in sh with one tool.
func serverSaying(text string) string {
	return `#!/bin/sh
while read -r line; do
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) result='{"content":[{"type":"text","text":"` + text + `"}]}' ;;
	*'"id"'*) result='{}' ;;
	*) continue ;;
	esac
	id=${line#*\"id\":}
	echo "{\"jsonrpc\":\"2.0\",\"id\":${id%%[!0-9]*},\"result\":$result}"
done
`
}

// TestDevPlugin works on a plugin: what is saved of its program, its files and its skills is taken over, and a file
// with an error changes nothing.
func TestDevPlugin(t *testing.T) {
	processtest.Leaks(t)
	const pluginJSON = `{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "greet",
		"version": "1.0.0"}`
	mcpJSON := func(more string) string {
		return `{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": {
			"greet": {"type": "stdio", "command": "sh", "args": ["${PLUGIN_ROOT}/server.sh"]}` + more + `}}`
	}
	project := project(t, map[string]string{
		"x/plugin.json": pluginJSON,
		"x/mcp.json":    mcpJSON(""),
		"x/server.sh":   serverSaying("one"),
	})
	s := startDev(t, project, "x")
	s.said.await(t, "● greet 1.0.0 ready in ")
	s.said.await(t, "    hello()  ")
	s.say("hello")
	s.said.await(t, "one  ")

	s.save("server.sh", serverSaying("two"))
	s.said.await(t, "↻ greet swapped in ")
	s.said.await(t, "(server.sh)\n")
	s.say("ext_greet_hello")
	s.said.await(t, "two  ")

	s.save("mcp.json", "{")
	s.said.await(t, "✗ greet not swapped, the build before goes on")
	s.said.await(t, "mcp.json:1:")
	s.say("hello")
	s.said.await(t, "two  ")
	s.save("mcp.json", mcpJSON(`, "other": {"type": "stdio", "command": "./other.sh"}`))
	s.said.await(t, "✗ greet.other does not run; it is tried again at the next save\n")
	s.save("other.sh", serverSaying("three"))
	s.said.await(t, "↻ greet.other swapped in ")
	s.say("ext_greet_other_hello")
	s.said.await(t, "three  ")

	s.save("plugin.json", strings.Replace(pluginJSON, `"version": "1.0.0"`, `"version": 1`, 1))
	s.said.await(t, "✗ greet not swapped")
	s.save("plugin.json", strings.Replace(pluginJSON, "1.0.0\"}", "2.0.0\"}", 1))
	s.said.await(t, "↻ greet swapped in ")
	s.say("hello")
	s.said.await(t, "two  ")
}

const scriptManifest = `[plugin]
id = "hello"
version = "0.1.0"
[transport]
script = "main.sh"
protocol = "lite"
[[tools]]
name = "hello"
description = "Greets."
input_schema = { type = "object", properties = { name = { type = "string" }, loud = { type = "boolean" }, tone = { enum = ["warm", "cold"] } } }
`

func scriptSaying(text string) string {
	return `#!/bin/sh
while read -r line; do
	id=${line#*\"id\":}
	echo "{\"id\":${id%%[!0-9]*},\"result\":\"` + text + `\"}"
done
`
}

// TestDev runs a whole session: saves, including broken ones, calls, output on stderr, and changed tools.
func TestDev(t *testing.T) {
	processtest.Leaks(t)
	project := project(t, map[string]string{"x/plugin.toml": scriptManifest, "x/main.sh": scriptSaying("one")})
	s := startDev(t, project, "x")
	s.said.await(t, "● hello 0.1.0 ready in ")
	s.said.await(t, "    hello(loud?: boolean, name?: string, tone?: warm|cold)  Greets.\n")
	s.say("hello name=Ada")
	s.said.await(t, "one  ")

	s.save("main.sh", scriptSaying("two"))
	s.said.await(t, "↻ hello swapped in ")
	s.said.await(t, "(main.sh)\n")
	s.say("ext_hello_hello")
	s.said.await(t, "two  ")

	s.save("plugin.toml", strings.Replace(scriptManifest, "name = { type",
		"greeting = { type = \"string\" }, name = { type", 1)+"[[tools]]\nname = \"bye\"\ndescription = \"Leaves.\"\n")
	s.said.await(t, "    hello: +greeting?: string\n")
	s.said.await(t, "    + bye()\n")

	s.save("plugin.toml", strings.Replace(scriptManifest, "script", "scrpt", 1))
	s.said.await(t, "✗ hello not swapped, the build before goes on\n")
	s.said.await(t, "plugin.toml:5:1: unknown key \"scrpt\"")
	s.save("plugin.toml", scriptManifest)
	s.said.await(t, "    - bye()\n")
	const notSwapped = "✗ hello not swapped, the build before goes on (main.sh)\n"
	swapped := func() int { return strings.Count(s.said.String(), "swapped in") }
	for n := 1; !strings.Contains(s.said.String(), notSwapped); n++ {
		before := swapped()
		s.save("main.sh", "#!/bin/sh\nwhile true; do\n\tfi\ndone\n"+strings.Repeat("#\n", n))
		for swapped() == before && !strings.Contains(s.said.String(), notSwapped) {
			<-s.said.more
		}
		if before = swapped(); !strings.Contains(s.said.String(), notSwapped) {
			t.Log("the machine is so busy that a script had not fallen over in time")
			s.save("main.sh", scriptSaying("two"))
			for swapped() == before {
				<-s.said.more
			}
		}
	}
	s.said.await(t, "3: ") // on stderr
	s.say("hello name=again")
	s.said.await(t, "two  ")
	swaps := swapped()
	s.save("main.sh", scriptSaying("mended"))
	for swapped() == swaps {
		<-s.said.more
	}
	s.say("hello")
	s.said.await(t, "mended  ")
	s.save("plugin.toml", "[capabilities]\ntools = []\n"+scriptManifest)
	s.said.await(t, "    - hello(")
	s.say("hello")
	s.said.await(t, "✗ hello is dropped: tools of [capabilities] in plugin.toml does not list it; add it there, or ")
	s.save("plugin.toml", scriptManifest)
	s.said.await(t, "    + hello(")
	s.save("plugin.toml", "[plugin\n")
	s.said.await(t, "plugin.toml:2:1")
	s.save("plugin.toml", scriptManifest) // as it was
	s.said.await(t, "● hello is fixed: the saved build runs\n")

	for _, c := range [][2]string{
		{"hallo", `there is no tool "hallo", did you mean "hello"?`},
		{"hello nmae=x tone=loud", `/tone: expected`},
		{"hello 'x", "the line ends inside a quote"},
		{"hello x", `"x" is not key=value`},
		{"help", "tab completes"},
		{":tools", "hello(loud?: boolean"},
		{"status", "state in "},
		{"restart", "↻ hello restarted in "},
		{"reload", "↻ nothing changes"},
		{"wire", "messages are shown; wire again ends it"},
		{"hello name=Tapped", `> {"id":`},
		{"wire", "messages are no longer shown"},
	} {
		s.say(c[0])
		s.said.await(t, c[1])
	}
	s.say("quit")
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// A save runs [dev] build before the swap, so that the new program responds. A compiler error is shown, and the
// previous program goes on.
func TestDevBuilds(t *testing.T) {
	processtest.Leaks(t)
	project := t.TempDir()
	if err := os.Mkdir(filepath.Join(project, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := &devSession{t: t, dir: filepath.Join(project, "x")}
	write.save("source.txt", scriptSaying("one"))
	write.save("plugin.toml", scriptManifest+`[dev]
watch = ["source.txt"]
build = ["sh", "-c", "if grep -n oops source.txt; then exit 1; fi; cp source.txt main.sh"]
`)
	s := startDev(t, project, "x")
	s.said.await(t, "● hello 0.1.0 ready in ")
	s.say("hello")
	s.said.await(t, "one  ")
	s.save("source.txt", scriptSaying("two"))
	s.said.await(t, "swapped in ") // once, to the new program
	s.say("hello")
	s.said.await(t, "two  ")
	s.save("source.txt", "oops\n")
	s.said.await(t, "✗ not reloaded, nothing changes: sh -c ")
	s.said.await(t, "exit status 1\n1:oops\n")
	s.say("hello name=again")
	s.said.await(t, "two  ")
	if said := s.said.String(); strings.Count(said, "swapped in ") != 1 {
		t.Errorf("one save changed the program more than once:\n%s", said)
	}
}

func TestDevOfNothing(t *testing.T) {
	processtest.Leaks(t)
	project := project(t, map[string]string{"x/README.md": ""})
	s := startDev(t, project, "x")
	s.said.await(t, "there is no plugin.toml or plugin.json in x")
	s.save("plugin.toml", "[plugin]\nid = \"hello\"\n")
	s.said.await(t, "✗ x/plugin.toml:1:2: plugin.version")
	s.save("main.sh", scriptSaying("one"))
	s.save("plugin.toml", scriptManifest+"[requires]\nbins = [\"no-such-program\"]\n")
	s.said.await(t, "✗ hello is skipped\n    ")
	s.save("plugin.toml", scriptManifest)
	s.said.await(t, "● hello 0.1.0 ready in ")
	out, err := program(project, "dev", "nowhere").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "exthost init NAME") {
		t.Errorf("%v: %s", err, out)
	}
}

// The time from a save to a response of the new build is bounded.
func TestDevLatency(t *testing.T) {
	processtest.Leaks(t)
	for _, tt := range []struct {
		lang, file string
		program    string
		bound      time.Duration
		text       func(mark string, original string) string
	}{
		{"sh", "main.sh", "sh", 100 * time.Millisecond, func(mark, _ string) string { return scriptSaying(mark) }},
		{"python", "main.py", "python3", 100 * time.Millisecond,
			func(mark, original string) string { return strings.Replace(original, "Hello, ", mark, 1) }},
		{"node", "main.mjs", "node", 150 * time.Millisecond,
			func(mark, original string) string { return strings.Replace(original, "Hello, ", mark, 1) }},
	} {
		t.Run(tt.lang, func(t *testing.T) {
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Skip(err)
			}
			if tt.program == "python3" { // python3 may be a wrapper, which takes longer than the program
				out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
				if err != nil {
					t.Fatal(err)
				}
				t.Setenv("PATH", filepath.Dir(string(out))+string(os.PathListSeparator)+os.Getenv("PATH"))
			}
			dir := project(t, map[string]string{"sh/plugin.toml": scriptManifest, "sh/main.sh": scriptSaying("first")})
			if tt.lang != "sh" {
				if out, err := program(dir, "init", "./"+tt.lang, "--lang", tt.lang).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			original, err := os.ReadFile(filepath.Join(dir, tt.lang, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			s := startDev(t, dir, tt.lang)
			s.said.await(t, "ready in ")
			floor := startsIn(t, filepath.Join(dir, tt.lang), tt.program, tt.file)
			var took stormtest.Durations
			pace := time.NewTicker(200 * time.Millisecond) // an author does not save more often
			defer pace.Stop()
			for i := range stormtest.Sized(3, 9) {
				<-pace.C
				mark := fmt.Sprintf("mark-%d-", i)
				began := time.Now()
				s.save(tt.file, tt.text(mark, string(original)))
				for swapped := fmt.Sprint(i + 1); strings.Count(s.said.String(), "swapped in") < i+1; {
					select {
					case <-s.said.more:
					case <-time.After(patience):
						t.Fatalf("no swap %s:\n%s", swapped, s.said)
					}
				}
				s.say("hello")
				s.said.await(t, mark)
				took = append(took, time.Since(began))
			}
			p50 := took.Quantile(0.5)
			t.Logf("%s: save to new answer: %v, of which the program's own start and end are %v; the aim is %v",
				tt.lang,
				took, floor.Round(time.Millisecond), tt.bound)
			if stormtest.Full && p50 > 20*tt.bound {
				t.Errorf("p50 is %v", p50)
			}
		})
	}
}

// startsIn returns how long a program takes to start, read the end of stdin, and exit.
func startsIn(t *testing.T, dir, name string, args ...string) time.Duration {
	t.Helper()
	var took stormtest.Durations
	for range 9 {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		began := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took.Quantile(0.5)
}

// A socket that is not a relay's is recognized, and nothing that it sends is run.
func TestAttachToSomethingElse(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	go func() {
		for _, said := range []string{
			"220 mail.example.com\n",
			`{"dir":"/","argv":[],"env":[]}` + "\n",
			"{}\n",
			strings.Repeat("x", 1<<16),
			"",
		} {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, said)
			conn.Close()
		}
	}()
	for range 5 {
		out, err := program(dir, "dev", "attach", socket).CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != int(console.ExitNotFound) ||
			!strings.Contains(string(out), "next: exthost dev DIR --attach") {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// An extension that runs elsewhere is attached, ends, and is attached again. It ends with the host.
func TestDevAttach(t *testing.T) {
	processtest.Leaks(t)
	project := project(t, map[string]string{"x/plugin.toml": notesManifest})
	s := startDev(t, project, "x", "--attach")
	s.said.await(t, "it is not started; in another terminal: exthost dev attach ")
	socket := regexp.MustCompile(`exthost dev attach (\S+)`).FindStringSubmatch(s.said.String())[1]
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the socket: %v, %v", info.Mode(), err)
	}
	attach := func(args ...string) (*exec.Cmd, *transcript) {
		t.Helper()
		said := &transcript{more: make(chan struct{}, 1)}
		var cmd *exec.Cmd
		for began := time.Now(); ; { // every relay after the first has to start
			cmd = program(project, append([]string{"dev", "attach", socket}, args...)...)
			cmd.Stderr = said
			if _, err := os.Stat(socket); err == nil || time.Since(began) > patience {
				break
			}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said.await(t, "attached as pid ")
		return cmd, said
	}
	first, _ := attach()
	s.said.await(t, "● notes 0.1.0 attached")
	s.say("add text=milk")
	s.said.await(t, "milk")
	if out, err := program(project, "dev", "attach", socket).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "no host waits at") {
		t.Errorf("a second one: %v, %s", err, out)
	}
	_ = first.Process.Signal(os.Interrupt)
	_ = first.Wait()
	s.said.await(t, "the attached process has ended")
	second, said := attach("--", "env", "DEBUGGED=1", "exthost", "extension", "notes")
	s.said.await(t, "● notes is attached again")
	s.say("search")
	s.said.await(t, "milk")
	s.say("quit")
	if err := second.Wait(); err != nil {
		t.Errorf("the attached process: %v\n%s", err, said)
	}
	out, err := program(project, "dev", "attach", socket).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "exthost dev DIR --attach") {
		t.Errorf("nobody there: %v, %s", err, out)
	}
}
