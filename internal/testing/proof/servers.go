package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// serverList names the servers of others.
const serverList = "internal/testing/proof/servers.txt"

var servers = page{
	name:  "servers",
	title: "Servers of npm and PyPI",
	about: "MCP servers of other projects, as their registries have them. Each is added by `exthost add` to a folder " +
		"of its own, with the source and arguments of [servers.txt](../../internal/testing/proof/servers.txt), and " +
		"started by `exthost check --start`: once as it is, and once in the strict sandbox, with its own folder and " +
		"no network. Nothing has credentials, and only the registries are reached. What follows a colon in the " +
		"verdict is the output of exthost.",
	write: func(r *report) error {
		text, err := os.ReadFile(serverList)
		if err != nil {
			return err
		}
		list, err := readServers(string(text))
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "exthost-servers")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if _, err := output("go", "build", "-o", filepath.Join(dir, "exthost"), "./cmd/exthost"); err != nil {
			return err
		}
		r.servers(dir, list)
		return nil
	},
}

// server is a line of the list.
type server struct {
	id, source string
	args       []string
	wants      string // from outside, such as credentials; "": nothing
}

// readServers reads lines of the form "ID SOURCE [-- ARG...] [# WANTS]".
func readServers(text string) (list []server, err error) {
	for line := range strings.Lines(text) {
		line, wants, _ := strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case len(words) == 1 || len(words) == 3 || len(words) > 3 && words[2] != "--":
			return nil, fmt.Errorf("%s: %q is not ID SOURCE [-- ARG...]", serverList, line)
		}
		s := server{id: words[0], source: words[1], wants: strings.TrimSpace(wants)}
		if len(words) > 3 {
			s.args = words[3:]
		}
		list = append(list, s)
	}
	return list, nil
}

// servers adds and starts each server below dir, where the program is, and lists what became of it.
func (r *report) servers(dir string, list []server) {
	var rows [][]string
	ok, refused, confined := 0, 0, 0
	for _, s := range list {
		o := s.run(dir)
		switch {
		case o.err == nil:
			ok++
			if o.confined == nil {
				confined++
			}
		case s.wants != "":
			refused++
		default:
			r.other = append(r.other, s.id+": "+o.err.Error())
		}
		rows = append(rows, o.row(s))
		fmt.Fprintf(os.Stderr, "proof: %s\n", strings.Join(rows[len(rows)-1], " | "))
	}
	fmt.Fprintf(&r.text, "\nOf %d servers %d started and listed their tools, %d of these in the strict sandbox too; "+
		"%d end without something from outside that they want; %d failed.\n\n",
		len(list), ok, confined, refused, len(r.other))
	r.table("server", "source", "runs as", "tools", "ready after", "strict sandbox", "verdict")
	for _, row := range rows {
		r.row(row...)
	}
}

// outcome is what became of a server.
type outcome struct {
	started
	err      error // nil: it is added and has started
	confined error // why it did not start in the sandbox
}

// row is the outcome as a row of the table.
func (o outcome) row(s server) []string {
	cells := []string{"`" + s.id + "`", "`" + s.source + "`", o.manner, o.tools, o.after, "", "passed"}
	switch {
	case o.err != nil && s.wants != "":
		cells[6] = "wants " + s.wants + ": " + o.err.Error()
	case o.err != nil:
		cells[6] = "**failed**: " + o.err.Error()
	case o.confined != nil:
		cells[5] = o.confined.Error()
	default:
		cells[5] = "starts"
	}
	if o.err == nil && s.wants != "" {
		cells[6] = "passed; calls want " + s.wants
	}
	return cells
}

// run adds a server, and starts it twice.
func (s server) run(dir string) (o outcome) {
	p := project{
		exthost: filepath.Join(dir, "exthost"),
		dir:     filepath.Join(dir, s.id),
		home:    filepath.Join(dir, "home"),
	}
	strict := "extensions: {sandbox: {default: strict}}\n"
	if o.err = errors.Join(os.MkdirAll(p.dir, 0o755), os.MkdirAll(p.home, 0o755),
		os.WriteFile(filepath.Join(p.dir, "strict.yaml"), []byte(strict), 0o644)); o.err != nil {
		return o
	}
	args := []string{"add", s.source, "--id", s.id, "--yes"}
	if s.args != nil {
		args = append(append(args, "--"), s.args...)
	}
	if _, o.err = p.run(args...); o.err != nil {
		return o
	}
	if o.started, o.err = p.start(s.id); o.err == nil {
		_, o.confined = p.start(s.id, "--config", "strict.yaml")
	}
	return o
}

// project is a folder in which exthost runs, for a user who has nothing else.
type project struct{ exthost, dir, home string }

// run runs a command of exthost. Its error is in the words of exthost, on one line.
func (p project) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.exthost, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = p.dir, &said
	cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_DATA_HOME=",
		"XDG_CACHE_HOME=", "XDG_RUNTIME_DIR=", "EXTHOST_TRUST=", "EXTHOST_EXTENSIONS_DEFAULTS_START_TIMEOUT=2m")
	out, err := cmd.Output()
	if err != nil {
		err = errors.New(p.short(cmp.Or(reason(said.String()), said.String(), err.Error())))
	}
	return out, err
}

// reason returns why exthost add has failed: the line on the stderr of the server that tells, or the error of exthost.
func reason(said string) string {
	_, said, _ = strings.Cut("\n"+said, "\nexthost: ")
	said, _, _ = strings.Cut(said, "\n  next: ")
	lines := strings.Split(said, "\n  stderr: ")
	if i := slices.IndexFunc(lines, regexp.MustCompile(`(?i)error(?: \[\w+\])?[:\]]`).MatchString); i > 0 {
		return lines[i]
	}
	return lines[len(lines)-1]
}

// short returns what was said on one line, without the folders of this run.
func (p project) short(said string) string {
	said = strings.NewReplacer(p.dir, "DIR", filepath.Dir(p.dir), "").Replace(said)
	said = strings.Join(strings.Fields(said), " ")
	if r := []rune(said); len(r) > 300 {
		said = string(r[:300]) + "…"
	}
	return said
}

// started is what exthost check --start says of an extension that is ready.
type started struct{ manner, tools, after string }

// ready matches the detail of a ready extension: its version, transport and protocol, and tools if there are any.
var ready = regexp.MustCompile(`^\S+ ([a-z]+/mcp(?: [\d-]+)?)(?:, (\d+) tools?\b)?`)

// start starts the extension of the folder.
func (p project) start(id string, flags ...string) (s started, err error) {
	out, err := p.run(append([]string{"check", "--start", "-o", "json"}, flags...)...)
	var report struct {
		Findings []struct {
			Check, Result, Detail string
			Stderr                []string
		}
	}
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		return s, errors.Join(err, jsonErr)
	}
	for _, f := range report.Findings {
		m := ready.FindStringSubmatch(f.Detail)
		switch {
		case f.Check == "extension "+id && (f.Result != "ok" || m == nil):
			return s, errors.New(p.short(strings.Join(append([]string{f.Detail}, f.Stderr...), " ")))
		case f.Check == "extension "+id:
			s.manner, s.tools = m[1], cmp.Or(m[2], "0")
		case f.Check == "start":
			s.after = strings.TrimPrefix(f.Detail, "all settled after ")
		}
	}
	if s.manner == "" {
		return s, errors.New("exthost check does not mention it")
	}
	return s, nil
}
