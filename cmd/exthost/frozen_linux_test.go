package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// askHost are the commands that need a response of the running host, with arguments.
var askHost = map[string][]string{
	"":                  {""},
	"call":              {"ext_kit_say"},
	"calls":             {"", "1", "-f", "--decisions"},
	"calls approve":     {""},
	"calls deny":        {"x"},
	"calls record":      {"kit.cassette kit"},
	"check":             {""},
	"cluster nodes":     {""},
	"disable":           {"kit"},
	"enable":            {"kit"},
	"logs":              {"", "kit", "-f", "--level debug -f", "--wire kit"},
	"policy hooks list": {""},
	"policy list":       {""},
	"policy pins":       {""},
	"policy test":       {"call.json"},
	"reload":            {"", "--dry-run", "--watch on", "--watch off", "--watch status"},
	"restart":           {"kit"},
	"skills list":       {""},
	"status":            {"", "kit", "--ready", "--wait 1s", "--ui --print"},
	"stop":              {""},
	"tools accept":      {"kit"},
	"tools list":        {""},
	"tools show":        {"--toolset few"},
}

// tellHost are commands that work without an answer of the running host, and notify or ask it all the same.
var tellHost = []string{
	"calls audit",
	"client add bot",
	"client list",
	"client set bot --mode all",
	"ps",
	"secret grant kit",
	"secret login kit",
	"secret logout kit",
	"trust --all --yes",
	"secret list",
}

// askNobody are the commands that serve, or that need no response of the running host.
var askNobody = []string{
	"add",
	"calls audit",
	"calls diff",
	"calls replay",
	"calls verify",
	"client add",
	"client list",
	"client remove",
	"client rotate",
	"client set",
	"cluster check",
	"cluster init",
	"cluster invite",
	"cluster permissions",
	"cluster revoke",
	"completion bash",
	"completion fish",
	"completion powershell",
	"completion zsh",
	"config schema config",
	"config schema lock",
	"config schema manifest",
	"config schema plugin",
	"config show",
	"connect",
	"connect skill",
	"dev",
	"dev attach",
	"import",
	"init",
	"policy hooks import",
	"policy hooks test",
	"ps",
	"remove",
	"secret grant",
	"secret list",
	"secret login",
	"secret logout",
	"secret remove",
	"secret set",
	"serve",
	"skills project",
	"skills show",
	"tools export",
	"tools find",
	"tools schema",
	"top",
	"trust",
	"upgrade",
	"validate",
	"version",
}

// Every command that asks a stopped host ends: the error names the process, and logs shows the log file. A command that
// was waiting when the host was stopped ends too.
func TestStoppedHost(t *testing.T) {
	processtest.Leaks(t)
	for _, name := range commands(t) {
		if askHost[name] == nil == !slices.Contains(askNobody, name) {
			t.Errorf("exthost %s: does it ask the running host? Name it in one of the two lists", name)
		}
	}
	dir, s, waiting, waitingSays := longCall(t, "log: {file: host.log}\n")
	if err := os.WriteFile(filepath.Join(dir, "call.json"), []byte(`{"tool": "ext_kit_say"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, 4)
	for command, arguments := range askHost {
		for _, more := range arguments {
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				line := strings.TrimSpace(command + " " + more)
				checkStopped(t, dir, line)
				if more == arguments[0] { // each command takes --host
					checkStopped(t, dir, line+" --host "+dir)
				}
			})
		}
	}
	for _, line := range tellHost {
		running.Go(func() {
			if _, _, ended := bounded(t, dir, line); !ended {
				t.Errorf("exthost %s did not end", line)
			}
		})
	}
	running.Wait()
	if _, stderr, _ := bounded(t, dir, "serve --listen 127.0.0.1:0"); !strings.Contains(stderr, "kill -CONT") ||
		strings.Contains(stderr, "exthost stop") {
		t.Errorf("a second host: %s", stderr)
	}
	_ = waiting.Wait()
	if code := waiting.ProcessState.ExitCode(); code != console.ExitCanceled ||
		!strings.Contains(waitingSays.String(), "is stopped") ||
		!strings.Contains(waitingSays.String(), "may have been done") {
		t.Errorf("the command that waited: exit code %d, %s", code, waitingSays)
	}
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("the host: exit code %d, %s", code, s.stderr)
	}
}

// checkStopped runs one command beside a stopped host.
func checkStopped(t *testing.T, dir, line string) {
	stdout, stderr, ended := bounded(t, dir, line)
	switch {
	case !ended:
		t.Errorf("exthost %s did not end", line)
	case !strings.Contains(stderr, "is stopped") || !strings.Contains(stderr, "kill -CONT") ||
		!strings.HasSuffix(stdout, "exit 8"):
		t.Errorf("exthost %s:\nstdout: %s\nstderr: %s", line, stdout, stderr)
	case line == "logs" && !strings.Contains(stdout, "serving"):
		t.Errorf("exthost logs does not show the file:\nstdout: %s\nstderr: %s", stdout, stderr)
	}
}

// bounded runs a command, and reports whether it ended within patience. The exit code follows stdout.
func bounded(t *testing.T, dir, line string) (stdout, stderr string, ended bool) {
	cmd := program(dir, strings.Fields(line)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return "", "", true
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	return fmt.Sprint(&out, "exit ", cmd.ProcessState.ExitCode()), errs.String(), late.Stop()
}
