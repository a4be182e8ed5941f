package docs_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/protocol"
)

// The directions of a line on the wire, as pages show it.
const (
	toChild = "→ " // from the host, or from a client to the host
	toHost  = "← "
)

// conversation splits a block into its command and the lines behind it.
func (r *runner) conversation(b *block) (command string, wire []string) {
	r.Helper()
	all := lines(b.text)
	command, ok := strings.CutPrefix(all[0], "$ ")
	if !ok {
		r.fail("the first line is not a command")
	}
	for _, line := range all[1:] {
		if !strings.HasPrefix(line, toChild) && !strings.HasPrefix(line, toHost) {
			r.fail("neither %q nor %q: %s", toChild, toHost, line)
		}
	}
	return command, all[1:]
}

// said returns the lines of one direction.
func said(wire []string, direction string) (list []string) {
	for _, line := range wire {
		if text, ok := strings.CutPrefix(line, direction); ok {
			list = append(list, text)
		}
	}
	return list
}

var scriptLine = regexp.MustCompile(`(?m)^script = "(.*)"$`)

// record runs the command with a child that keeps what passes between it and the
// host, and compares every line in both directions.
func (r *runner) record(b *block) {
	r.Helper()
	command, wire := r.conversation(b)
	dir := filepath.Join(r.dir, b.attrs["record"])
	manifest := filepath.Join(dir, "plugin.toml")
	original, err := os.ReadFile(manifest)
	if err != nil {
		r.fail("%v", err)
	}
	m := scriptLine.FindSubmatch(original)
	if m == nil {
		r.fail("%s has no script to record", manifest)
	}
	argv, err := process.LaunchScript(string(m[1]), dir, os.Getenv("PATH"))
	if err != nil {
		r.fail("%v", err)
	}
	sent, answered := filepath.Join(r.TempDir(), "sent"), filepath.Join(r.TempDir(), "answered")
	recorder := fmt.Sprintf("tee '%s' | '%s' | tee '%s'\n", sent, strings.Join(argv, "' '"), answered)
	for path, text := range map[string]string{
		filepath.Join(dir, "recorder.sh"): recorder,
		manifest:                          scriptLine.ReplaceAllString(string(original), `script = "recorder.sh"`),
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			r.fail("%v", err)
		}
	}
	cmd := r.shell(command)
	cmd.Env = append(cmd.Env, "EXTHOST_TRUST=off") // the recorder is not what the reader agreed to
	out, _ := cmd.CombinedOutput()                 // a failure is part of what some pages show
	if err := os.WriteFile(manifest, original, 0o755); err != nil {
		r.fail("%v", err)
	}
	r.compare(toChild, said(wire, toChild), sent, out)
	r.compare(toHost, said(wire, toHost), answered, out)
}

func (r *runner) compare(direction string, want []string, file string, out []byte) {
	r.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		r.fail("%v\n%s", err, out)
	}
	got := lines(string(data))
	if !slices.EqualFunc(want, got, sameJSON) {
		r.fail("%s is\n%s\nnot\n%s\noutput: %s", direction, strings.Join(got, "\n"), strings.Join(want, "\n"), out)
	}
}

// announced marks the notification that a host may send between answers until all extensions have started.
const announced = `"method":"` + protocol.MethodToolsListChanged + `"`

// replay tells a program what the page says and expects the answers shown.
func (r *runner) replay(b *block) {
	r.Helper()
	command, wire := r.conversation(b)
	cmd := r.shell("exec " + command)
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		r.fail("%v", err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	answers := bufio.NewReader(stdout)
	for _, line := range wire {
		if text, ok := strings.CutPrefix(line, toChild); ok {
			if _, err := io.WriteString(stdin, text+"\n"); err != nil {
				r.fail("%v", err)
			}
			continue
		}
		got, err := answers.ReadString('\n')
		for err == nil && strings.Contains(got, announced) {
			got, err = answers.ReadString('\n')
		}
		if want := strings.TrimPrefix(line, toHost); err != nil || !sameJSON(want, got) {
			r.fail("it answers %s (%v), not %s", got, err, want)
		}
	}
	stdin.Close()
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 && !strings.Contains(string(rest), announced) {
		r.fail("it also says %s (%v)", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		r.fail("%v", err)
	}
}

// sameJSON reports whether got is the value that want shows: the string "…" in it
// stands for any value, and as a key for any further members.
func sameJSON(want, got string) bool {
	var w, g any
	return json.Unmarshal([]byte(want), &w) == nil && json.Unmarshal([]byte(got), &g) == nil && sameValue(w, g)
}

func sameValue(want, got any) bool {
	switch want := want.(type) {
	case string:
		return want == "…" || want == got
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(want, list, sameValue)
	case map[string]any:
		object, ok := got.(map[string]any)
		_, more := want["…"]
		for key, w := range want {
			g, there := object[key]
			ok = ok && (key == "…" || there && sameValue(w, g))
		}
		return ok && (more || len(object) == len(want))
	}
	return want == got
}
