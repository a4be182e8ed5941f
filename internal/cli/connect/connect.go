// Package connect implements two commands. exthost connect changes the settings of MCP clients so that they start the
// host of a directory, or undoes that change. exthost connect skill prepares agents without MCP.
package connect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/local/clientsettings"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text"
)

// The values of --scope.
const (
	ofUser    = "user"
	ofProject = "project"
)

// connecting is one run of exthost connect: its flags.
type connecting struct {
	console *console.Console
	as      string
	toolset string
	dir     string // absolute
	scope   string
	name    string // server's name in the settings; "": exthost, or the name that the directory's server has already
	file    string

	dryRun, undo, yes, list bool
}

// Command returns exthost connect.
func Command(c *console.Console) *cobra.Command {
	r := connecting{console: c}
	cmd := &cobra.Command{
		Use:   "connect [CLIENT]",
		Short: "Have an MCP client start the host of this directory",
		Long: "Add a server to the settings of an MCP client, so that the client starts exthost serve --stdio\n" +
			"for this directory: show the change, ask, keep a backup and write. All else in the file stays as\n" +
			"it is, comments and order too. --undo takes the server out again. Without a CLIENT, list the\n" +
			"clients of this machine and the directories they are connected to. Agents that have a shell need no\n" +
			"client: exthost connect skill tells them how to call tools.\n\n" +
			"A CLIENT is " + strings.Join(clientsettings.IDs(), ", ") + ".",
		Example: "  exthost connect claude\n  exthost connect cursor --scope project\n  exthost connect codex --as " +
			"codex --toolset review --dry-run\n  exthost connect claude --undo",
		Args: console.AtMostOne("the name of a client"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), args)
		},
		ValidArgsFunction: cobra.FixedCompletions(clientsettings.IDs(), cobra.ShellCompDirectiveNoFileComp),
	}
	f := cmd.Flags()
	f.StringVar(&r.as, "as", "", "the `NAME` of the client for policies and the audit log")
	f.StringVar(&r.toolset, "toolset", "", "the `NAME` of the toolset that the client sees")
	f.StringVar(&r.dir, "dir", "", "the `DIR` to serve (default: this one)")
	f.StringVar(&r.scope, "scope", ofUser, "whose settings: those of the user, or of the project in the directory")
	f.StringVar(&r.name, "name", "", "the `NAME` of the server in the settings (default exthost)")
	f.StringVar(&r.file, "file", "", "the `FILE` of the settings, where it is not the usual one")
	f.BoolVar(&r.dryRun, "dry-run", false, "show the change and write nothing")
	f.BoolVar(&r.undo, "undo", false, "take the server of this directory out of the settings")
	f.BoolVarP(&r.yes, "yes", "y", false, "write without a question")
	f.BoolVar(&r.list, "list", false, "list the clients of this machine and their connections")
	cmd.AddCommand(skillCommand(c))
	console.CompleteFlag(cmd, "scope", []string{ofUser, ofProject})
	return cmd
}

// nameForm matches names of servers and toolsets that every settings format and every client accepts unquoted.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func (r *connecting) run(ctx context.Context, args []string) error {
	if err := r.check(); err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err == nil && !filepath.IsAbs(home) {
		err = fmt.Errorf("%s is no absolute path", home)
	}
	if list := r.list || len(args) == 0; err != nil && (list || r.file == "" && r.scope == ofUser) {
		return &console.Error{
			Code: console.ExitFailed,
			Text: "there is no home directory, where the settings of the user are: " + err.Error(),
			Hint: "set the variable, or exthost connect CLIENT --file FILE",
		}
	}
	places := clientsettings.Places{
		System: runtime.GOOS,
		Home:   home,
		Env:    os.Getenv,
		Glob: func(pattern string) []string {
			found, _ := filepath.Glob(pattern) // fails only for a malformed pattern
			return found
		},
	}
	if r.list || len(args) == 0 {
		return r.listing(places)
	}
	client := clientsettings.Find(args[0])
	if client == nil {
		return console.Usagef("exthost connect --list", "there is no client %q%s; there is %s", args[0],
			console.DidYouMean(args[0], clientsettings.IDs()), strings.Join(clientsettings.IDs(), ", "))
	}
	s, err := r.settings(client, places)
	if err != nil {
		return err
	}
	if r.undo {
		return r.disconnect(ctx, s)
	}
	return r.connect(ctx, s)
}

// check validates the flags.
func (r *connecting) check() (err error) {
	if err := console.OneOf("exthost connect --help", "--scope", r.scope, []string{ofUser, ofProject}); err != nil {
		return err
	}
	for _, f := range []struct{ flag, value string }{{"--toolset", r.toolset}, {"--name", r.name}} {
		if f.value != "" && !nameForm.MatchString(f.value) {
			return console.Usagef("exthost connect --help",
				"%s %q: a name has letters, digits, - and _, and at most 64 of them", f.flag, f.value)
		}
	}
	if r.as != "" {
		if err := clienttoken.CheckName(r.as); err != nil {
			return console.Usagef("exthost client list", "--as: %v", err)
		}
	}
	if r.undo && (r.as != "" || r.toolset != "") {
		return console.Usagef("exthost connect CLIENT --undo --name NAME",
			"--undo needs neither --as nor --toolset: it finds the server of the directory")
	}
	given := r.dir
	if r.dir, err = filepath.Abs(given); err != nil { // "" is the working directory
		return err
	}
	if info, err := os.Stat(r.dir); err == nil && info.IsDir() || r.undo {
		return nil // --undo works for directories that no longer exist
	}
	return &console.Error{Code: console.ExitNotFound, Text: fmt.Sprintf("--dir %s is no directory", given)}
}

// outcome is what the command did, or would do with --dry-run.
type outcome struct {
	Client  string   `json:"client"`
	File    string   `json:"file"`
	Name    string   `json:"name"`
	Dir     string   `json:"dir"`
	Command []string `json:"command,omitempty"` // what the client starts; nil after --undo
	Change  string   `json:"change"`            // none, added, changed or removed
	Written bool     `json:"written"`
	Diff    string   `json:"diff,omitempty"`
	Backup  string   `json:"backup,omitempty"` // path of the file before the change
}

// report prints the outcome; text is its form for people.
func (r *connecting) report(o outcome, text ...string) error {
	return r.console.Print(console.Document{
		Kind:  "connect",
		Value: o,
		Names: []string{o.File},
		Text:  console.SafeText(strings.Join(text, "\n")),
	})
}

// connect adds the server, or changes the command line of the existing one.
func (r *connecting) connect(ctx context.Context, s *settings) error {
	argv, err := r.commandLine(s.client)
	if err != nil {
		return err
	}
	if err := s.read(); err != nil {
		return err
	}
	name, have, err := r.entry(s)
	if err != nil {
		return err
	}
	o := outcome{Client: s.client.ID, File: s.path, Name: name, Dir: r.dir, Command: argv, Change: "added"}
	where := fmt.Sprintf("  settings: server %s in %s", name, console.Tilde(s.path))
	if have != nil {
		if o.Change = "changed"; slices.Equal(have.Argv, argv) {
			o.Change = "none"
			text := fmt.Sprintf("%s is connected to %s already", s.client.Title, console.Tilde(r.dir))
			return r.report(o, text, where, "  undo: "+r.again("--undo"))
		}
	}
	change := s.putting(name, argv, variables())
	r.warn(ctx, s, argv[0])
	if done, err := r.apply(ctx, s, change, &o); err != nil || !done {
		return err
	}
	text := []string{
		fmt.Sprintf("%s is connected to %s", s.client.Title, console.Tilde(r.dir)),
		where,
		"  next: " + s.client.Next,
		"  undo: " + r.again("--undo"),
	}
	if o.Backup != "" {
		text = append(text, "  backup: "+console.Tilde(o.Backup))
	}
	return r.report(o, text...)
}

// again returns the command line of this run with flag added.
func (r *connecting) again(flag string) string {
	words := []string{"exthost"}
	for i, word := range os.Args[1:] {
		if word == "--" || i > 0 && (word == "--yes" || word == "-y" || word == "--dry-run") {
			continue
		}
		words = append(words, word)
	}
	if flag == "--undo" {
		words = withoutFlags(words, "--as", "--toolset")
	}
	if flag != "" {
		words = append(words, flag)
	}
	return text.ShellLine(words)
}

// withoutFlags removes flags and their values from a command line.
func withoutFlags(words []string, flags ...string) (left []string) {
	for i := 0; i < len(words); i++ {
		removed := false
		for _, flag := range flags {
			if words[i] == flag {
				i++
				removed = true
				break
			}
			removed = removed || strings.HasPrefix(words[i], flag+"=")
		}
		if !removed {
			left = append(left, words[i])
		}
	}
	return left
}

// warn warns about what may keep the server from working for the client.
func (r *connecting) warn(ctx context.Context, s *settings, program string) {
	c := r.console
	if passing(program) {
		c.Warn("%s lies in a temporary directory, and the client will not find it for long; install exthost, and "+
			"connect again", console.Safe(program))
	}
	if s.scope == ofProject && inRepository(filepath.Dir(s.path)) {
		c.Info("%s is in a git repository, and the paths of the server are those of this machine",
			console.Safe(console.NearbyPath(s.path)))
	}
	if here, err := os.Getwd(); err != nil || !file.Same(here, r.dir) {
		return
	}
	cfg, origins, err := hosts.Load(c)
	if err == nil && r.as != "" {
		if wrong := hosts.CheckClient(r.as, cfg.Server.Clients); wrong != nil {
			err = wrong
		}
	}
	if err == nil {
		err = trust.BeforeServe(ctx, c, cfg, origins, false)
	}
	if err != nil {
		c.Warn("as things are, the client gets this error: %s", console.Describe(err))
	}
}

// inRepository reports whether dir is in a git work tree.
func inRepository(dir string) bool {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}
