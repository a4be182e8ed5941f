package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

var update = flag.Bool("update", false, "write what the program says into the scripts that compare it")

// TestMain lets the test binary be exthost itself, for the scripts and for the extensions whose command is exthost.
func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") { // not the program that the scripts run
		os.Setenv("EXTHOST_TRUST", "off") // the tests wrote what they run
	}
	testscript.Main(processtest.Sharded(m, "TestScripts", "TestNothingRunsUnderAnyCommand"), programs)
}

// programs are the main functions that the test binary runs, by the name it is started under.
var programs = map[string]func(){"exthost": main, "approve": approve}

// quickExit saves a second of sleep at the exit of every process built with the race detector.
const quickExit = "atexit_sleep_ms=0"

// TestScripts runs the scripts in testdata with the program. No process may be left after them.
func TestScripts(t *testing.T) {
	processtest.Leaks(t)
	caches := map[string]string{} // Go's, so that scripts can build extensions offline
	if out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE").Output(); err == nil {
		if err := json.Unmarshal(out, &caches); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Condition:           optional,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			repository, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			for name, value := range map[string]string{
				"HOME":             env.WorkDir + "/home",
				"XDG_STATE_HOME":   env.WorkDir + "/state",
				"XDG_CONFIG_HOME":  env.WorkDir + "/config-home",
				"EXTHOST_TRUST":    "off",
				"GORACE":           quickExit,
				"BUNDLED":          filepath.Join(repository, "extensions"),
				"EXAMPLES":         filepath.Join(repository, "examples"),
				"PYTHONIOENCODING": "utf-8",
				"ESC":              "\x1b",
			} {
				env.Setenv(name, value)
			}
			for name, value := range caches {
				env.Setenv(name, value)
			}
			env.Setenv("GOGC", "400") // garbage collection is a third of a command's start-up time
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOFLAGS", "-ldflags=-w") // halves the time to link
			return os.MkdirAll(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"harmless":   harmless,
			"publish":    publish,
			"serving":    serving,
			"eventually": eventually,
			"freeport":   freePort,
			"remote":     remote(t),
		},
	})
}

// optional implements the condition "all": EXTHOST_TEST=all.
func optional(condition string) (bool, error) {
	if condition != "all" {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	return processtest.WantsAll(), nil
}

// exits runs a command and expects the exit code: exits 3 exthost validate.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// serving waits until a host in the background has started everything.
func serving(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: serving")
	}
	state := filepath.Join(ts.Getenv("WORK"), "state", "exthost")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < patience; <-tick.C {
		locks, _ := filepath.Glob(filepath.Join(state, "*", ".exthost.lock"))
		for _, lock := range locks {
			if text, _ := os.ReadFile(lock); strings.Contains(string(text), "/mcp") &&
				ts.Exec("exthost", "status") == nil && !strings.Contains(ts.ReadFile("stdout"), " spawning ") {
				return
			}
		}
	}
	ts.Fatalf("nothing serves after %v", patience)
}

// freePort sets a variable to an unused port: freeport NAME.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport NAME")
	}
	port, release, err := processtest.FreePort()
	ts.Check(err)
	ts.Defer(release)
	ts.Setenv(args[0], port)
}

// eventually repeats a command until its stdout matches: eventually PATTERN PROGRAM [ARG...].
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < patience; <-tick.C {
		if ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("after %v there is no %s", patience, args[0])
}

// harmless expects that the files, such as stdout and stderr, have no byte that a terminal acts on.
func harmless(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		text := ts.ReadFile(name)
		if i := strings.IndexFunc(text,
			func(r rune) bool { return r != '\n' && console.Invisible(r) }); (i >= 0) != neg {
			ts.Fatalf("%s: first character a terminal acts on at %d of %d: %q", name, i, len(text),
				text[max(i-20, 0):min(max(i, 0)+20, len(text))])
		}
	}
}

// A thousand tools are all listed.
func TestThousandTools(t *testing.T) {
	manifest := strings.Split(kitManifest, "[[tools]]")[0]
	for i := range 1000 {
		manifest += "[[tools]]\nname = \"tool_" + strconv.Itoa(i) + "\"\n"
	}
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": manifest})
	began := time.Now()
	out, err := program(dir, "tools", "list", "-o", "name").Output()
	t.Logf("after %s", time.Since(began))
	if n := strings.Count(string(out), "\n"); err != nil || n != 1000 {
		t.Errorf("%d tools, %v", n, err)
	}
}
