package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/exthost/exthost/examples/vendortest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/tools"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Verb{"agent": func(task string) {
		os.Unsetenv(processtest.ScriptVar)
		os.Args = []string{"agent-go", task}
		main()
	}})
}

// project changes to a copy of the test project and removes the keys from the environment.
func project(t *testing.T) (dir string) {
	t.Helper()
	processtest.Leaks(t)
	dir = vendortest.Project(t)
	t.Chdir(dir)
	for _, name := range []string{
		"ANTHROPIC_API_KEY",
		"OPENAI_API_KEY",
		"ANTHROPIC_BASE_URL",
		"OPENAI_BASE_URL",
		"XDG_CONFIG_HOME",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	return dir
}

// do runs the program.
func do(t *testing.T, args ...string) (answer, log string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err = run(t.Context(), args, &stdout, &stderr)
	return stdout.String(), stderr.String(), err
}

func TestVendors(t *testing.T) {
	for vendor, serve := range vendortest.Vendors {
		t.Run(vendor, func(t *testing.T) {
			project(t)
			v := vendortest.Failures(t, serve, func(url string) (answer, log string, err error) {
				t.Setenv(vendor+"_API_KEY", vendortest.Key)
				t.Setenv(vendor+"_BASE_URL", url)
				return do(t, "do", "everything")
			})
			if r := v.Results(0); !strings.HasSuffix(r[6].Text, " (rejected)") ||
				!strings.HasSuffix(r[7].Text, " (rejected)") {
				t.Errorf("policy and hook: %+v", r[6:])
			}
			if !slices.Contains(v.Offered(), "ext_kit_say") {
				t.Errorf("offered: %q", v.Offered())
			}
		})
	}
}

// TestModelWritesNoJSON has a model whose arguments are not JSON.
func TestModelWritesNoJSON(t *testing.T) {
	project(t)
	v := vendortest.OpenAI(t,
		vendortest.Turn{
			Calls: []vendortest.Call{
				{Tool: "ext_kit_say", Arguments: `{"text":`},
				{Tool: "ext_kit_say", Arguments: `["x"]`},
				{Tool: "ext_kit_scarce"},
			},
		},
		vendortest.Turn{Text: "Sorry."})
	t.Setenv("OPENAI_API_KEY", vendortest.Key)
	t.Setenv("OPENAI_BASE_URL", v.URL+"/")
	if answer, log, err := do(t, "say x"); err != nil || answer != "Sorry.\n" {
		t.Fatalf("%q, %v\n%s", answer, err, log)
	}
	r := v.Results(0)
	if !strings.Contains(r[0].Text, "(invalid_arguments)") || !strings.Contains(r[1].Text, "(invalid_arguments)") ||
		!strings.HasPrefix(r[2].Text, "here you are") {
		t.Errorf("%+v", r)
	}
}

func TestVendorErrors(t *testing.T) {
	say := []vendortest.Call{{Tool: "ext_kit_say", Arguments: `{"text":"x"}`}}
	for _, c := range []struct {
		name  string
		turns []vendortest.Turn
		key   string
		args  []string
		want  string
	}{
		{"key", nil, "another", nil,
			"401 Unauthorized: X-Api-Key is not what it should be; the key is that of ANTHROPIC_API_KEY"},
		{"no key", nil, "", []string{"-model", "anthropic"},
			"ANTHROPIC_API_KEY is not set; -model scripted needs no key"},
		{"model", nil, "", []string{"-model", "eliza"}, `there is no model "eliza": anthropic, openai or scripted`},
		{"refusal", []vendortest.Turn{{Stop: "refusal"}}, vendortest.Key, nil, "claude-sonnet-4-5 refuses the task"},
		{"length", []vendortest.Turn{{Stop: "max_tokens", Calls: say}}, vendortest.Key, nil, "longer than 8192 tokens"},
		{"much later", []vendortest.Turn{{Status: 429, RetryAfter: "3600"}}, vendortest.Key, nil,
			"429 Too Many Requests: as the test wants it; ask again in 3600 s"},
		{"steps", []vendortest.Turn{{Calls: say}, {Calls: say}}, vendortest.Key, []string{"-steps", "2"},
			"has asked for tools 2 times and has no answer; -steps allows more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			project(t)
			v := vendortest.Anthropic(t, c.turns...)
			t.Setenv("ANTHROPIC_API_KEY", c.key)
			t.Setenv("ANTHROPIC_BASE_URL", v.URL)
			if _, log, err := do(t, append(c.args, "task")...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, log)
			}
		})
	}
}

func TestScripted(t *testing.T) {
	project(t)
	vendortest.Scripted(t, func(task string) (answer, log string, err error) { return do(t, task) })
}

func TestNothingThere(t *testing.T) {
	dir := project(t)
	if _, _, err := do(t); err == nil || !strings.Contains(err.Error(), "what is to be done?") {
		t.Errorf("no task: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "extensions")); err != nil {
		t.Fatal(err)
	}
	answer, log, err := do(t, "say something")
	if err != nil || !strings.Contains(log, "exthost check says why") ||
		!strings.Contains(answer, `no tool that I am offered does "say something"`) {
		t.Errorf("no tools: %q, %v\n%s", answer, err, log)
	}
	if err := os.WriteFile("exthost.yaml", []byte("plugns: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err = do(t, "x"); err == nil || !strings.Contains(err.Error(), "exthost.yaml:1:1: ") {
		t.Errorf("broken configuration: %v", err)
	}
}

// modelFunc is a model made of one function.
type modelFunc func(in input, offered []*tools.Entry) (output, error)

func (f modelFunc) answer(_ context.Context, in input, offered []*tools.Entry) (output, error) {
	return f(in, offered)
}

// TestExtensionGoes removes the tools between two steps: the model calls one it was offered
// before, gets an error, and is not offered it again.
func TestExtensionGoes(t *testing.T) {
	dir := project(t)
	host, err := open(t.Context(), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	step := 0
	m := modelFunc(func(in input, offered []*tools.Entry) (output, error) {
		if step++; step == 1 {
			if err := os.RemoveAll(filepath.Join(dir, "extensions", "kit")); err != nil {
				t.Error(err)
			}
			if _, err := host.Admin().Reload(t.Context()); err != nil {
				t.Error(err)
			}
			return output{calls: []call{{"1", offered[0].Name, json.RawMessage(`{}`)}}}, nil
		}
		return output{text: fmt.Sprint(len(offered), in.results)}, nil
	})
	answer, err := (&agent{host: host, model: m, steps: 2, log: &bytes.Buffer{}}).run(t.Context(), "task")
	if err != nil || !strings.HasPrefix(answer, `0 [{1 there is no tool "ext_kit_add"`) ||
		!strings.Contains(answer, "(tool_not_found)") {
		t.Errorf("%s, %v", answer, err)
	}
}

// TestCancel cancels while a tool waits.
func TestCancel(t *testing.T) {
	project(t)
	host, err := open(t.Context(), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	m := modelFunc(func(input, []*tools.Entry) (output, error) {
		return output{calls: []call{{"1", "ext_kit_left", nil}}}, nil
	})
	var tool sync.WaitGroup
	tool.Go(func() {
		if pipe, err := os.Open("extensions/kit/rendezvous"); err == nil { // the tool has opened it
			cancel(enough)
			pipe.Close()
		}
	})
	defer tool.Wait()
	if _, err := (&agent{host: host, model: m, steps: 9, log: &bytes.Buffer{}}).run(ctx, "task"); !errors.Is(err,
		enough) {
		t.Error(err)
	}
}

// TestTerminate sends SIGTERM to the program while a tool runs: the extension ends before
// the program, which prints the reason.
func TestTerminate(t *testing.T) {
	project(t)
	v := vendortest.OpenAI(t, vendortest.Turn{Calls: []vendortest.Call{{Tool: "ext_kit_right", Arguments: `{}`}}})
	program, env := processtest.Script(t, "agent meet")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(append(os.Environ(), "OPENAI_API_KEY="+vendortest.Key, "OPENAI_BASE_URL="+v.URL), env...)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile("extensions/kit/rendezvous", os.O_WRONLY, 0) // the tool reads to its end
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "agent-go: ") {
		t.Errorf("%v\n%s", err, &stderr)
	}
}
