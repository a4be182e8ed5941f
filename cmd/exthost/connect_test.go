//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/local/clientsettings"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// settingsOf returns the file that exthost connect writes for a client.
func settingsOf(home, id string) string {
	env := map[string]string{"XDG_CONFIG_HOME": home + "/config-home"}
	return clientsettings.Find(id).User(clientsettings.Places{
		System: "linux",
		Home:   home,
		Env:    func(name string) string { return env[name] },
	})[0]
}

// Each client starts the command that was written for it, in any directory and with few variables, and calls a tool of
// the connected directory. All clients share one host.
func TestConnectedClients(t *testing.T) {
	if _, err := os.Stat("/proc"); err != nil {
		t.Skip("the files are those of Linux")
	}
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	defer stopHosts(t, dir)
	for _, c := range clientsettings.All() {
		if out, err := program(dir, "connect", c.ID, "--trust", "off", "--yes").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.ID, err, out)
		}
		server := serverIn(t, &c, settingsOf(dir, c.ID))
		argv := server.Args
		name, _ := server.Command.(string)
		if words, ok := server.Command.([]any); ok {
			name = words[0].(string)
			for _, word := range words[1:] {
				argv = append(argv, word.(string))
			}
		}
		cmd := exec.Command(name, argv...)
		cmd.Dir, cmd.Env = "/", []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "GORACE=" + quickExit}
		for _, env := range []map[string]string{server.Env, server.Environment} {
			for name, value := range env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
		}
		session, err := mcp.NewClient(&mcp.Implementation{Name: c.ID, Version: "1"}, nil).Connect(t.Context(),
			&mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		result, err := session.CallTool(t.Context(),
			&mcp.CallToolParams{Name: "ext_kit_say", Arguments: map[string]any{"to": c.ID}})
		if err != nil || result.IsError || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, `"`+c.ID+`"`) {
			t.Errorf("%s: %+v, %v", c.ID, result, err)
		}
		if err := session.Close(); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		if out, err := program(dir, "connect", c.ID, "--undo", "--yes").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.ID, err, out)
		}
		if _, err := os.Stat(settingsOf(dir, c.ID)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: its file is left: %v", c.ID, err)
		}
	}
}

// written is a server as the client reads it.
type written struct {
	Command     any
	Args        []string
	Env         map[string]string
	Environment map[string]string
}

func serverIn(t *testing.T, c *clientsettings.Client, path string) written {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var servers map[string]map[string]written
	if c.TOML() {
		err = toml.Unmarshal(data, &servers)
	} else {
		err = json.Unmarshal(data, &servers) // the file has no comments
	}
	server, ok := servers[c.Key]["exthost"]
	if err != nil || !ok {
		t.Fatalf("%s: %v in\n%s", c.ID, err, data)
	}
	return server
}

// A hostile or broken file is refused at once, and stays as it is.
func TestConnectHostileFiles(t *testing.T) {
	const name = ".cursor/mcp.json"
	write := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	for what, tt := range map[string]struct {
		make func(path string) error
		want string
	}{
		"100 MB": {func(path string) error { return errors.Join(write("{")(path), os.Truncate(path, 100<<20)) },
			"over 16 MiB"},
		"a directory":  {func(path string) error { return os.Mkdir(path, 0o755) }, "a directory, not a regular file"},
		"a FIFO":       {func(path string) error { return syscall.Mkfifo(path, 0o644) }, "a FIFO, not a regular file"},
		"a link to it": {func(path string) error { return os.Symlink(filepath.Base(path), path) }, "too many"},
		"a dead link": {func(path string) error { return os.Symlink("nothing", path) },
			"a link to a file that does not exist"},
		"read-only": {func(path string) error { return errors.Join(write("{}")(path), os.Chmod(path, 0o444)) },
			"read-only"},
		"not UTF-8":     {write("{\"a\": \"\xff\"}"), "not UTF-8"},
		"UTF-16":        {write("\xff\xfe{\x00}\x00"), "not UTF-8"},
		"a key twice":   {write(`{"mcpServers": {}, "mcpServers": {}}`), "1:20: \"mcpServers\" is there a second time"},
		"deep":          {write(strings.Repeat(`{"a":`, 1<<20)), "nested deeper than 1000 levels"},
		"a list":        {write(`[]`), "no JSON object"},
		"servers: list": {write(`{"mcpServers": []}`), `"mcpServers" is no object`},
		"cut off":       {write(`{"mcpServers": {"a": {`), "1:23: "},
	} {
		t.Run(what, func(t *testing.T) {
			dir := project(t, map[string]string{".cursor/other": ""})
			path := filepath.Join(dir, name)
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			out, err := program(dir, "connect", "cursor", "--yes").CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) || len(out) > 4000 {
				t.Errorf("%v: %s", err, out)
			}
			after, err := os.Lstat(path)
			if err != nil || after.Size() != before.Size() || after.Mode() != before.Mode() ||
				!after.ModTime().Equal(before.ModTime()) {
				t.Errorf("the file was %v, and is %v, %v", before, after, err)
			}
			if out, err := program(dir, "connect").CombinedOutput(); err != nil {
				t.Errorf("the list: %v\n%s", err, out)
			}
		})
	}
}

// A link stays a link; its target keeps its mode, line ends and byte order mark.
func TestConnectKeepsLinkModeAndLineEnds(t *testing.T) {
	before := []byte("\xef\xbb\xbf{\r\n  \"mcpServers\": {}\r\n}\r\n")
	dir := project(t, map[string]string{"dotfiles/cursor.json": string(before), ".cursor/other": ""})
	target, link := filepath.Join(dir, "dotfiles/cursor.json"), filepath.Join(dir, ".cursor/mcp.json")
	if err := errors.Join(os.Chmod(target, 0o640), os.Symlink("../dotfiles/cursor.json", link)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"connect", "cursor", "--yes"}, {"connect", "cursor", "--yes", "--undo"}} {
		if out, err := program(dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		info, err := os.Stat(target)
		kind, linkErr := os.Lstat(link)
		if err != nil || linkErr != nil || info.Mode() != 0o640 || kind.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%v: %v, %v, %v, %v", args, info.Mode(), kind.Mode(), err, linkErr)
		}
		data, err := os.ReadFile(target)
		if err != nil || !bytes.HasPrefix(data, []byte("\xef\xbb\xbf{\r\n")) ||
			bytes.Count(data, []byte("\n")) != bytes.Count(data, []byte("\r\n")) {
			t.Errorf("%v: %q, %v", args, data, err)
		}
	}
	if data, err := os.ReadFile(target); err != nil || !bytes.Equal(data, before) {
		t.Errorf("undone it is %q, %v", data, err)
	}
}

// Concurrent runs do not lose each other's changes.
func TestConcurrentConnectsLoseNothing(t *testing.T) {
	dir := project(t, map[string]string{".claude.json": "{\n  \"numStartups\": 1\n}\n"})
	var runs sync.WaitGroup
	for n := range 6 {
		name := fmt.Sprint("s", n/2) // two of each name
		runs.Go(func() {
			if out, err := program(dir, "connect", "claude", "--yes", "--name", name).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
	runs.Wait()
	data, err := os.ReadFile(filepath.Join(dir, ".claude.json"))
	var file struct {
		NumStartups int
		MCPServers  map[string]any `json:"mcpServers"`
	}
	if err := errors.Join(err, json.Unmarshal(data, &file)); err != nil || len(file.MCPServers) != 3 ||
		file.NumStartups != 1 {
		t.Errorf("%v in\n%s", err, data)
	}
}

// After a kill at any time, the file is the old or the new one, and the next run removes leftovers of the killed one.
func TestKilledConnectLeavesAWholeFile(t *testing.T) {
	before := "{\n  \"mcpServers\": {},\n  \"pad\": \"" + strings.Repeat("x", 1<<20) + "\"\n}\n"
	dir := project(t, map[string]string{".claude.json": before})
	path := filepath.Join(dir, ".claude.json")
	for n := range 12 {
		args := []string{"connect", "claude", "--yes"}
		if n%2 == 1 {
			args = append(args, "--undo")
		}
		cmd := program(dir, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			default:
				found, err := filepath.Glob(filepath.Join(dir, ".claude.json?*"))
				if more, _ := filepath.Glob(filepath.Join(dir, "..claude.json-*")); err == nil &&
					len(found)+len(more) > n%3 {
					_ = cmd.Process.Kill() // its lock or the new file exists
				}
			}
		}
		data, err := os.ReadFile(path)
		if !json.Valid(data) || err != nil || !strings.Contains(string(data), strings.Repeat("x", 1<<20)) {
			t.Fatalf("%v: %d bytes, %v", args, len(data), err)
		}
		if err := os.RemoveAll(path + ".lock"); err != nil { // otherwise stale after 10 s
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"connect", "claude", "--yes"}, {"connect", "claude", "--yes", "--undo"}} {
		if out, err := program(dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.Contains(e.Name(), "claude.json") && e.Name() != ".claude.json" {
			t.Errorf("%s is left", e.Name())
		}
	}
	if data, readErr := os.ReadFile(path); errors.Join(err, readErr) != nil || string(data) != before {
		t.Errorf("%d bytes instead of %d; %v, %v", len(data), len(before), err, readErr)
	}
}
