package connect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/local/clientsettings"
	"github.com/exthost/exthost/internal/local/relay"
)

// standard is the default of --name, the server's name in the settings.
const standard = "exthost"

// commandLine returns the command line that the client is to start. It works in any working directory of the client and
// with any PATH.
func (r *connecting) commandLine(client *clientsettings.Client) ([]string, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	c := r.console
	argv := []string{program, "serve", "--stdio", "--dir", r.dir}
	if c.Config != "" {
		path, err := filepath.Abs(c.Config)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--config", path)
	}
	for _, dir := range c.Extensions {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--extensions", path)
	}
	if c.NoProject {
		argv = append(argv, "--no-project-config")
	}
	for _, f := range []struct{ flag, value string }{
		{"--trust", c.Trust},
		{"--log-level", c.LogLevel},
		{"--as", r.as},
		{"--toolset", r.toolset},
	} {
		if f.value != "" {
			argv = append(argv, f.flag, f.value)
		}
	}
	for _, word := range argv {
		if !utf8.ValidString(word) {
			return nil, &console.Error{
				Code: console.ExitFailed,
				Text: fmt.Sprintf("%q is not UTF-8, as settings are", word),
				Hint: "give the directory or the program another path, such as a link",
			}
		}
		if mark := client.Expands; mark != "" && strings.Contains(word, mark) {
			return nil, &console.Error{
				Code: console.ExitFailed,
				Text: fmt.Sprintf("%s would take %q in %s for a variable", client.Title, mark, word),
				Hint: "give the directory or the program a path without " + mark + ", such as a link",
			}
		}
	}
	return argv, nil
}

// program returns the path of this program. It prefers a path found in PATH, which stays valid when a package manager
// installs another version.
func program() (string, error) {
	running, err := relay.Program()
	if err != nil {
		return "", err
	}
	if found, err := exec.LookPath("exthost"); err == nil && filepath.IsAbs(found) && file.Same(found, running) {
		return found, nil
	}
	return running, nil
}

// passing reports whether a program lies in a temporary directory, such as the one of go run.
func passing(program string) bool {
	dirs := []string{os.TempDir(), "/tmp"} // /tmp is temporary even if TMPDIR is another directory
	if real, err := filepath.EvalSymlinks(os.TempDir()); err == nil {
		dirs = append(dirs, real)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		rel, err := filepath.Rel(dir, program)
		return err == nil && filepath.IsLocal(rel)
	}) || strings.Contains(filepath.ToSlash(program), "/go-build")
}

// sameDir reports whether a and b are the same directory, which need not exist.
func sameDir(a, b string) bool { return filepath.Clean(a) == filepath.Clean(b) || file.Same(a, b) }

// variables returns the environment variables that locate the host's files. A graphical client, or one that passes on
// few variables, does not have them.
func variables() map[string]string {
	env := map[string]string{}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		if value := os.Getenv(name); filepath.IsAbs(value) {
			env[name] = value
		}
	}
	return env
}

// entry returns the name for the server, and the directory's existing server of that name; nil if the name is free.
func (r *connecting) entry(s *settings) (name string, have *clientsettings.Server, err error) {
	servers, err := s.servers()
	if err != nil {
		return "", nil, err
	}
	name = r.name
	if name == "" {
		name = standard
		for _, server := range r.mine(servers) {
			name = server.Name // also a name other than exthost, set earlier with --name
		}
	}
	at := slices.IndexFunc(servers, func(e clientsettings.Server) bool { return e.Name == name })
	if at < 0 {
		return name, nil, nil
	}
	e := &servers[at]
	dir, ours := serves(e.Argv)
	if ours && dir != "" && sameDir(dir, r.dir) {
		return name, e, nil
	}
	place := fmt.Sprintf("%s:%d", console.Tilde(s.path), e.Line)
	other := freeName(servers, r.dir)
	hint := r.again("--name=" + other)
	if ours && dir != "" {
		return "", nil, &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("%s: server %s is connected to %s", place, name, console.Tilde(dir)),
			Hint: hint + " connects this directory beside it",
		}
	}
	return "", nil, &console.Error{
		Code: console.ExitFailed,
		Text: fmt.Sprintf("%s: there is a server %s already, and exthost connect did not write it", place, name),
		Hint: hint + ", or remove that one",
	}
}

// serves is [clientsettings.Serves], and also recognizes this program under another name.
func serves(argv []string) (dir string, ours bool) {
	if running, err := relay.Program(); err == nil && len(argv) > 0 && file.Same(argv[0], running) {
		argv = append([]string{standard}, argv[1:]...)
	}
	return clientsettings.Serves(argv)
}

// mine returns the servers of the directory, limited to --name if that is given.
func (r *connecting) mine(servers []clientsettings.Server) (mine []clientsettings.Server) {
	for _, e := range servers {
		if dir, ours := serves(e.Argv); ours && dir != "" && sameDir(dir, r.dir) && (r.name == "" || r.name == e.Name) {
			mine = append(mine, e)
		}
	}
	return mine
}

// freeName returns an unused name for a server.
func freeName(servers []clientsettings.Server, dir string) string {
	base := strings.Trim(strings.Map(func(c rune) rune {
		if c < 0x80 && nameForm.MatchString("x"+string(c)) {
			return c
		}
		return '-'
	}, filepath.Base(dir)), "-_")
	name := strings.TrimSuffix(standard+"-"+base[:min(len(base), 40)], "-")
	for n := 2; slices.ContainsFunc(servers, func(e clientsettings.Server) bool { return e.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", standard, n)
	}
	return name
}
