package agentpython

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/examples/vendortest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// patience bounds one run of the loop; no run takes that long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(processtest.Sharded(m).Run()) }

var built = sync.OnceValues(func() (dir string, err error) {
	return processtest.Build("-ldflags=-w", "./cmd/exthost")
})

// loop runs agent.py in a new project with variables NAME=VALUE.
type loop struct {
	dir string
	env []string
}

func newLoop(t *testing.T, env ...string) *loop {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: examples/agent-python needs python3, which is missing")
	}
	programs, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := vendortest.Project(t)
	l := &loop{dir: dir}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ANTHROPIC_") && !strings.HasPrefix(v, "OPENAI_") &&
			!strings.HasPrefix(v, "EXTHOST_") {
			l.env = append(l.env, v)
		}
	}
	l.env = append(l.env, "XDG_CONFIG_HOME=", "EXTHOST_TRUST=off", "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"no_proxy=127.0.0.1", "PYTHONIOENCODING=ascii", "EXTHOST="+filepath.Join(programs, "exthost"))
	l.env = append(l.env, env...)
	return l
}

func (l *loop) run(t *testing.T, args ...string) (answer, log string, err error) {
	t.Helper()
	script, err := filepath.Abs("agent.py")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "python3", append([]string{script}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.dir, l.env, &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func TestVendors(t *testing.T) {
	t.Parallel()
	for vendor, serve := range vendortest.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			v := vendortest.Failures(t, serve, func(url string) (answer, log string, err error) {
				return newLoop(t, vendor+"_API_KEY="+vendortest.Key, vendor+"_BASE_URL="+url).run(t, "do", "everything")
			})
			// MCP lists omit tools that a policy denies.
			if offered := v.Offered(); !slices.Contains(offered, "ext_kit_say") ||
				slices.Contains(offered, "ext_kit_delete") {
				t.Errorf("offered: %q", offered)
			}
		})
	}
}

// TestModelWritesNoJSON has a model whose arguments are not JSON.
func TestModelWritesNoJSON(t *testing.T) {
	t.Parallel()
	v := vendortest.OpenAI(t,
		vendortest.Turn{
			Calls: []vendortest.Call{
				{Tool: "ext_kit_say", Arguments: `{"text":`},
				{Tool: "ext_kit_say", Arguments: `["x"]`},
				{Tool: "ext_kit_scarce"},
			},
		},
		vendortest.Turn{Text: "Sorry."})
	l := newLoop(t, "OPENAI_API_KEY="+vendortest.Key, "OPENAI_BASE_URL="+v.URL+"/")
	if answer, log, err := l.run(t, "say x"); err != nil || answer != "Sorry.\n" {
		t.Fatalf("%q, %v\n%s", answer, err, log)
	}
	r := v.Results(0)
	if !strings.Contains(r[0].Text, "the arguments are no JSON") || !strings.HasPrefix(r[1].Text, "error: ") ||
		!strings.HasPrefix(r[2].Text, "here you are") {
		t.Errorf("%+v", r)
	}
}

func TestScripted(t *testing.T) {
	t.Parallel()
	vendortest.Scripted(t, func(task string) (answer, log string, err error) { return newLoop(t).run(t, task) })
}

func TestErrors(t *testing.T) {
	t.Parallel()
	say := []vendortest.Call{{Tool: "ext_kit_say", Arguments: `{"text":"x"}`}}
	key := "ANTHROPIC_API_KEY=" + vendortest.Key
	for _, c := range []struct {
		name  string
		turns []vendortest.Turn
		env   []string
		args  []string
		want  string
	}{
		{"key", nil, []string{"ANTHROPIC_API_KEY=another"}, nil,
			"401 Unauthorized: X-Api-Key is not what it should be; the key is that of ANTHROPIC_API_KEY"},
		{"no key", nil, nil, []string{"--model", "anthropic"},
			"ANTHROPIC_API_KEY is not set; --model scripted needs no key"},
		{"model", nil, nil, []string{"--model", "eliza"}, `there is no model "eliza": anthropic, openai or scripted`},
		{"refusal", []vendortest.Turn{{Stop: "refusal"}}, []string{key}, nil, "claude-sonnet-4-5 refuses the task"},
		{"much later", []vendortest.Turn{{Status: 429, RetryAfter: "3600"}}, []string{key}, nil,
			"429 Too Many Requests: as the test wants it; ask again in 3600 s"},
		{"steps", []vendortest.Turn{{Calls: say}, {Calls: say}}, []string{key}, []string{"--steps", "2"},
			"has asked for tools 2 times and has no answer; --steps allows more"},
		{"no exthost", nil, []string{"EXTHOST=/no/such/program"}, nil,
			"agent.py: /no/such/program: No such file or directory"},
		{"another program", nil, []string{"EXTHOST=echo"}, nil, "this is not exthost: it says "},
		{"configuration", nil, []string{"EXTHOST_LOG_LEVEL=loud"}, nil,
			"agent.py: exthost has ended; what it says is above"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := vendortest.Anthropic(t, c.turns...)
			_, log, err := newLoop(t, append(c.env, "ANTHROPIC_BASE_URL="+v.URL)...).run(t, append(c.args, "task")...)
			if err == nil || !strings.Contains(log, c.want) || strings.Contains(log, "Traceback") {
				t.Errorf("%v, want %q\n%s", err, c.want, log)
			}
		})
	}
}
