package config_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/protocol"
)

// busy is the variable that makes this binary edit the clients of a directory until it is killed.
const busy = "EXTHOST_TEST_EDITS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(busy); dir != "" {
		for n := 0; ; n++ {
			name := fmt.Sprintf("busy%d", n%3)
			_, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: name, New: freshClient()})
			if err == nil {
				_, err = config.EditClient(editOptions(dir),
					config.ClientEdit{Name: name, Replace: func(config.Client) config.Client { return *freshClient() }})
			}
			if err == nil && n >= 3 {
				_, err = config.EditClient(editOptions(dir),
					config.ClientEdit{Name: fmt.Sprintf("busy%d", (n+1)%3), Remove: true})
			}
			if kind := protocol.KindOf(err); err != nil && kind != protocol.InvalidArguments &&
				kind != protocol.ToolNotFound {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println("edited")
		}
	}
	os.Exit(m.Run())
}

func editOptions(dir string) config.LoadOptions {
	return config.LoadOptions{Dir: dir, UserDir: filepath.Join(dir, "user"), SystemDir: "none", Environ: []string{}}
}

func freshClient() *config.Client {
	return &config.Client{TokenHash: clienttoken.Hash(clienttoken.New()), Since: "2030-01-31T12:00:00Z"}
}

func clientsOf(t *testing.T, dir string) map[string]config.Client {
	t.Helper()
	cfg, _, diags := loaded(editOptions(dir))
	if cfg == nil {
		t.Fatal(config.Refused(diags))
	}
	return cfg.Server.Clients
}

// Concurrent additions are all kept. Of several additions with one name, exactly one succeeds.
func TestConcurrentEditsAreKept(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	added := map[string]int{}
	for n := range 24 {
		wg.Go(func() {
			name := fmt.Sprintf("c%d", n/2)
			_, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: name, New: freshClient()})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				added[name]++
			} else if protocol.KindOf(err) != protocol.InvalidArguments {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range 12 {
		if name := fmt.Sprintf("c%d", n); added[name] != 1 {
			t.Errorf("%s was added %d times", name, added[name])
		}
	}
	if got := clientsOf(t, dir); len(got) != 12 {
		t.Errorf("%d clients: %v", len(got), got)
	}
}

// An edit through a link keeps the link; a dangling link is an error.
func TestEditKeepsALink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	dir := t.TempDir()
	link, target := filepath.Join(dir, "user", "exthost.yaml"), filepath.Join(dir, "real.yaml")
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o700), os.WriteFile(target, []byte("# mine\n"), 0o640),
		os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: "ada", New: freshClient()}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != target {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	info, err := os.Stat(target)
	if text, _ := os.ReadFile(target); err != nil || info.Mode().Perm() != 0o640 ||
		!strings.HasPrefix(string(text), "# mine\n") || !strings.Contains(string(text), "ada:") {
		t.Errorf("%v %v\n%s", info.Mode(), err, text)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if _, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: "bob", New: freshClient()}); err == nil {
		t.Error("a link to nothing was followed")
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("the target was made")
	}
}

// Killing an editor leaves the file whole, and the next edit removes its temporary files.
func TestKilledEditLeavesTheFileWhole(t *testing.T) {
	dir := t.TempDir()
	const mine = "# mine\nlog: {level: info} # quiet\n"
	err := errors.Join(os.Mkdir(filepath.Join(dir, "user"), 0o700),
		os.WriteFile(filepath.Join(dir, "user", "exthost.yaml"), []byte(mine), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), busy+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range 1 + n%5 {
			if line, err := lines.ReadString('\n'); line != "edited\n" {
				t.Fatalf("%q, %v", line, err)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		clientsOf(t, dir)
		if text, err := os.ReadFile(filepath.Join(dir, "user", "exthost.yaml")); err != nil ||
			!strings.HasPrefix(string(text), mine) {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if _, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: "ada", New: freshClient()}); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "user", ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Edits that would make the configuration invalid are refused.
func TestInvalidEditsAreRefused(t *testing.T) {
	many := "server:\n  clients:\n"
	for n := range config.MaxClients {
		many += fmt.Sprintf("    c%d: {}\n", n)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"clients": {many, "1024 clients already"},
		"bytes": {"log: {level: info}\n#" + strings.Repeat("x", 1<<20-30) + "\n",
			"more than a configuration file may have"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "user", "exthost.yaml")
			if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700),
				os.WriteFile(file, []byte(tt.text), 0o600)); err != nil {
				t.Fatal(err)
			}
			clientsOf(t, dir)
			_, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: "ada", New: freshClient()})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
			if _, ok := errors.AsType[*config.ByHand](err); ok {
				t.Error("nor can a person make the change")
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != tt.text {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}
