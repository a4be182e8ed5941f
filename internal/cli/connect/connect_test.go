package connect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/clientsettings"
)

// at creates a home directory and a project in it, changes into the project, and returns a function for paths in the
// home directory.
func at(t *testing.T) (home func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{
		"HOME":              dir,
		"USERPROFILE":       dir,
		"APPDATA":           filepath.Join(dir, "appdata"),
		"XDG_STATE_HOME":    filepath.Join(dir, "state"),
		"XDG_CONFIG_HOME":   "",
		"CLAUDE_CONFIG_DIR": "",
		"CODEX_HOME":        "",
		"EXTHOST_TRUST":     "off",
	} {
		t.Setenv(name, value)
	}
	shop := filepath.Join(dir, "shop")
	if err := os.Mkdir(shop, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(shop)
	return func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
}

// run runs exthost connect.
func run(t *testing.T, args ...string) (said string, err error) {
	var out, messages bytes.Buffer
	c := &console.Console{In: strings.NewReader(""), Out: &out, Err: &messages, Color: "never", Output: "table"}
	err = execute(t.Context(), c, args)
	return out.String() + messages.String(), err
}

func execute(ctx context.Context, c *console.Console, args []string) error {
	cmd := Command(c)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// --undo removes the server, and the table that was added for it, from a file that something else has changed since.
func TestUndoOfAChangedFile(t *testing.T) {
	home := at(t)
	path := home(".claude.json")
	for before, want := range map[string]string{
		"{\n  \"n\": 1\n}\n":                      "{\n  \"n\": 2\n}\n",
		"{\n  \"n\": 1,\n  \"mcpServers\": {}\n}": "{\n  \"n\": 2,\n  \"mcpServers\": {}\n}",
		"{\n  \"n\": 1,\n  \"mcpServers\": {\n    \"a\": {} // n\n  }\n}": "{\n  \"n\": 2,\n  \"mcpServers\": {\n    " +
			"\"a\": {} // n\n  }\n}",
	} {
		write(t, path, before)
		must(t, "claude", "--yes")
		must(t, "claude", "--yes", "--as", "ada")
		write(t, path, strings.Replace(content(t, path), `"n": 1`, `"n": 2`, 1))
		must(t, "claude", "--yes", "--undo")
		if diff := cmp.Diff(want, content(t, path)); diff != "" {
			t.Error(diff)
		}
	}
}

// --undo works without a record and with a broken one.
func TestUndoWithoutRecord(t *testing.T) {
	home := at(t)
	path := home(".codex/config.toml")
	for _, spoil := range []func(record string) error{
		os.Remove,
		func(record string) error { return os.WriteFile(record, []byte("{"), 0o600) },
	} {
		write(t, path, "a = 1 # mine\n")
		must(t, "codex", "--yes")
		records, err := filepath.Glob(home("state/exthost/connected/*/record.json"))
		if err != nil || len(records) != 1 {
			t.Fatalf("%q, %v", records, err)
		}
		if err := spoil(records[0]); err != nil {
			t.Fatal(err)
		}
		must(t, "codex", "--yes", "--undo")
		if got := content(t, path); got != "a = 1 # mine\n" {
			t.Errorf("undone it is %q", got)
		}
	}
}

// --undo removes a file and a directory that were created, unless they have other content by now.
func TestUndoOfAMadeFile(t *testing.T) {
	home := at(t)
	path := home(".cursor/mcp.json")
	must(t, "cursor", "--yes")
	info, err := os.Stat(path)
	if err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must(t, "cursor", "--yes", "--undo")
	if _, err := os.Stat(home(".cursor")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	must(t, "cursor", "--yes")
	write(t, home(".cursor/rules"), "x")
	write(t, path, strings.Replace(content(t, path), "{", "{\n  \"n\": 1,", 1))
	must(t, "cursor", "--yes", "--undo")
	if got := content(t, path); got != "{\n  \"n\": 1\n}\n" {
		t.Errorf("undone it is %q", got)
	}
}

// A settings file below a linked directory has the same record before and after it exists.
func TestLinkedDirectoryHasOneRecord(t *testing.T) {
	home := at(t)
	if err := errors.Join(os.MkdirAll(home("dotfiles/cursor"), 0o755),
		os.Symlink(home("dotfiles/cursor"), home(".cursor"))); err != nil {
		t.Skip(err)
	}
	must(t, "cursor", "--yes")
	must(t, "cursor", "--yes", "--undo")
	if entries, err := os.ReadDir(home("dotfiles/cursor")); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Changes between the question and the answer are kept, unless they are to the server itself.
func TestChangesOfOthersAreKept(t *testing.T) {
	home := at(t)
	path := home(".claude.json")
	write(t, path, "{\n  \"n\": 1\n}\n")
	argv := []string{"/bin/exthost", "serve", "--stdio", "--dir", home("shop")}
	asked := func() (*connecting, *settings, change) {
		r := &connecting{console: &console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, dir: home("shop")}
		s := &settings{client: clientsettings.Find("claude"), scope: ofUser, path: path}
		if err := s.read(); err != nil {
			t.Fatal(err)
		}
		return r, s, s.putting("exthost", argv, nil)
	}
	r, s, change := asked()
	write(t, path, "{\n  \"n\": 2,\n  \"mcpServers\": {\"b\": {}}\n}\n")
	if err := r.write(t.Context(), s, change, &outcome{Name: "exthost", Change: "added"}); err != nil {
		t.Fatal(err)
	}
	servers, err := s.servers()
	if got := content(t, path); err != nil || !strings.Contains(got, `"n": 2`) || !strings.Contains(got, `"b": {}`) ||
		!strings.Contains(got, "/bin/exthost") {
		t.Errorf("%+v, %v in\n%s", servers, err, got)
	}

	r, s, change = asked()
	for _, meanwhile := range []string{`{"mcpServers": {"exthost": {"command": "other"}}}`, "{"} {
		write(t, path, meanwhile)
		if err := r.write(t.Context(), s, change, &outcome{Name: "exthost", Change: "added"}); err == nil {
			t.Error("it was written")
		}
		if got := content(t, path); got != meanwhile {
			t.Errorf("the file is %s", got)
		}
	}
}

// A path that settings cannot express is refused.
func TestPathMustBeUTF8(t *testing.T) {
	home := at(t)
	dir := home("\xff")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err) // the system allows only valid names
	}
	if _, err := run(t, "codex", "--yes", "--dir", dir); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Error(err)
	}
}

// The lock of a client is respected, and removed when it is stale.
func TestStaleLockOfAClientIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		unlock, err := lock(t.Context(), path)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	unlock()
	if err := <-second; err != nil {
		t.Error(err)
	}
	old := time.Now().Add(-2 * lockAge)
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chtimes(path, old, old)); err != nil {
		t.Fatal(err)
	}
	if unlock, err = lock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// Of a long line only the changed part is shown, and secrets in or near a change are masked.
func TestDiffShowsTheChangeAndMasksSecrets(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1000) + `"`
	for name, tt := range map[string]struct{ before, after, want string }{
		"one line":   {long + "}", long + `,"b":{}}`, "@@ line 1 @@\n+ …,\"b\":{}…\n"},
		"a new file": {"", "a\nb\n", "@@ line 1 @@\n+ a\n+ b\n"},
		"in between": {"1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n",
			"@@ line 5 @@\n  2\n  3\n  4\n+ x\n  5\n  6\n  7\n"},
		"CRLF": {"1\r\n2\r\n", "1\r\n", "@@ line 2 @@\n  1\n- 2\n"},
		"a secret": {"\"Authorization\": \"Bearer abcdefghijklmnop1234\"\n",
			"\"Authorization\": \"Bearer abcdefghijklmnop1234\"\nx\n",
			"@@ line 2 @@\n  \"Authorization\": \"Bearer [redacted:authorization-header]\"\n+ x\n"},
		"a secret before": {"{\n\"Authorization\": \"Bearer abcdefghijklmnop1234\"\n}\n",
			"{\n\"Authorization\": \"Bearer abcdefghijklmnop1234\",\nx\n}\n",
			"@@ line 2 @@\n  {\n- \"Authorization\": \"Bearer [redacted:authorization-header]\"\n+ " +
				"\"Authorization\": \"Bearer [redacted:authorization-header]\",\n+ x\n  }\n"},
	} {
		if diff := cmp.Diff(tt.want, difference([]byte(tt.before), []byte(tt.after)).text()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFlags(t *testing.T) {
	if got := withoutFlags(strings.Fields("exthost connect claude --as a --toolset=b --name c"), "--as",
		"--toolset"); !slices.Equal(got, strings.Fields("exthost connect claude --name c")) {
		t.Error(got)
	}
	if !passing("/tmp/go-build12/b001/exe/exthost") || !passing(filepath.Join(os.TempDir(), "x", "exthost")) ||
		passing("/usr/local/bin/exthost") {
		t.Error("a program in a temporary directory is one that passes, and no other is")
	}
}

// Unreadable settings: the error names the file and the next step, and the list does too.
func TestSettingsThatCannotBeRead(t *testing.T) {
	home := at(t)
	path := home(".cursor/mcp.json")
	for why, make := range map[string]func() error{
		"not a directory": func() error { return os.WriteFile(home(".cursor"), nil, 0o600) },
		"too many links": func() error {
			return errors.Join(os.Mkdir(home(".cursor"), 0o700), os.Symlink("mcp.json", path))
		},
		"is a directory, not a regular file": func() error { return os.MkdirAll(path, 0o700) },
	} {
		if err := make(); err != nil {
			t.Skip(err)
		}
		for _, flag := range []string{"--yes", "--undo", "--dry-run"} {
			_, err := run(t, "cursor", flag)
			failed, ok := errors.AsType[*console.Error](err)
			if !ok || failed.Code != console.ExitInvalid ||
				!strings.HasPrefix(failed.Text, console.Tilde(path)+": it ") ||
				!strings.Contains(failed.Text, why) || failed.Hint == "" {
				t.Errorf("%s, %s: %v", why, flag, err)
			}
		}
		if said := must(t, "--list"); !strings.Contains(said, why) {
			t.Errorf("%s: the list says %s", why, said)
		}
		if err := os.RemoveAll(home(".cursor")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(home("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, "cursor", "--yes", "--file", home("file/below/mcp.json"))
	if failed, ok := errors.AsType[*console.Error](err); !ok || failed.Hint == "" {
		t.Errorf("a directory that cannot be made: %v", err)
	}
}

// Without a home directory, a file given with --file can be changed nevertheless.
func TestFileNeedsNoHome(t *testing.T) {
	home := at(t)
	for _, value := range []string{"", "here"} {
		for _, name := range []string{"HOME", "USERPROFILE"} {
			t.Setenv(name, value)
		}
		for _, args := range [][]string{{"cursor", "--yes"}, {"--list"}, {"cursor", "--undo"}} {
			_, err := run(t, args...)
			if failed, ok := errors.AsType[*console.Error](err); !ok ||
				!strings.Contains(failed.Text, "no home directory") || failed.Hint == "" {
				t.Errorf("HOME=%q %v: %v", value, args, err)
			}
		}
		if left, _ := os.ReadDir("."); len(left) > 0 {
			t.Errorf("HOME=%q: left %v", value, left)
		}
		must(t, "cursor", "--yes", "--file", home("mcp.json"))
		must(t, "cursor", "--undo", "--yes", "--file", home("mcp.json"))
	}
}

// interrupting cancels a context at the first line of the change that is shown.
type interrupting struct{ cancel context.CancelFunc }

func (i interrupting) Write(p []byte) (int, error) {
	i.cancel()
	return len(p), nil
}

// After Ctrl-C nothing is written, neither while the settings are read nor after the change was shown.
func TestCtrlCWritesNothing(t *testing.T) {
	home := at(t)
	path := home(".cursor/mcp.json")
	before := "{}\n"
	write(t, path, before)
	for _, args := range [][]string{{"cursor", "--yes"}, {"cursor", "--yes", "--undo"}} {
		for _, early := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			if early {
				cancel()
			}
			c := &console.Console{
				In:     strings.NewReader(""),
				Out:    io.Discard,
				Err:    interrupting{cancel},
				Color:  "never",
				Output: "table",
			}
			if err := execute(ctx, c, args); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v", args, err)
			}
			if got := content(t, path); got != before {
				t.Errorf("%v: it is %q", args, got)
			}
		}
		must(t, "cursor", "--yes")
		before = content(t, path)
	}
}
