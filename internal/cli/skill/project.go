package skill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/local/clientsettings"
	"github.com/exthost/exthost/status"
)

const (
	scopeProject = "project"
	scopeUser    = "user"
)

// options of exthost skills project.
type options struct {
	client, scope string
	undo, check   bool
}

func (o options) writes() bool { return !o.undo && !o.check }

func project(c *console.Console) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "project [NAME…]",
		Short: "Write skills into the folder where a client looks for its own",
		Long: "Write the skills of extensions, or those of NAME, into the folder of skills of a client that\n" +
			"does not read skills over MCP: below this directory, or that of the user with\n" +
			"--scope user. What was written is recorded in " + recordName + " beside the skills,\n" +
			"with the digest of each file. A folder or a file that is not recorded there, or has changed\n" +
			"since, is never overwritten or removed. Held skills are left out. Run it again after an\n" +
			"upgrade; --check says what it would change, and --undo removes what it wrote.",
		Example: "  exthost skills project --client claude\n" +
			"  exthost skills project --client codex --scope user git-workflow\n" +
			"  exthost skills project --client claude --check",
		RunE: func(cmd *cobra.Command, args []string) error { return runProject(cmd.Context(), c, o, args) },
	}
	cmd.Flags().StringVar(&o.client, "client", "", "write for this `CLIENT`: "+strings.Join(clients(), ", "))
	cmd.Flags().StringVar(&o.scope, "scope", scopeProject, "for this directory (project) or for all (user)")
	cmd.Flags().BoolVar(&o.undo, "undo", false, "remove what was written")
	cmd.Flags().BoolVar(&o.check, "check", false, "write nothing; exit 9 if something differs")
	cmd.MarkFlagsMutuallyExclusive("undo", "check")
	return cmd
}

// clients returns the ids of the clients that have a folder of skills.
func clients() (ids []string) {
	for _, c := range clientsettings.All() {
		if c.Skills != "" {
			ids = append(ids, c.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// folder returns the folder in which the client looks for skills: of the user, or below this directory.
func (o options) folder() (string, error) {
	client := clientsettings.Find(o.client)
	if o.scope == scopeProject {
		return filepath.FromSlash(client.Skills), nil
	}
	home, err := os.UserHomeDir()
	return client.UserSkills(clientsettings.Places{System: runtime.GOOS, Home: home, Env: os.Getenv}), err
}

// projected is the outcome of exthost skills project.
type projected struct {
	Dir       string   `json:"dir"`
	Written   []string `json:"written"`
	Removed   []string `json:"removed"`
	Unchanged []string `json:"unchanged"`
	Kept      []string `json:"kept"` // what is not ours, with the reason
}

func runProject(ctx context.Context, c *console.Console, o options, names []string) error {
	const hint = "exthost skills project --client claude"
	if err := console.OneOf(hint, "--client", o.client, clients()); err != nil {
		return err
	}
	if err := console.OneOf(hint+" --scope user", "--scope", o.scope, []string{scopeProject, scopeUser}); err != nil {
		return err
	}
	dir, err := o.folder()
	if err != nil {
		return err
	}
	var wanted []found
	if !o.undo {
		var s status.Status
		if wanted, s, err = chosen(ctx, c, o, names); err != nil {
			hosts.PrintProblems(c, s)
			return err
		}
	}
	t, err := openTarget(dir, o)
	if err != nil {
		return err
	}
	defer t.close()
	out := projected{Dir: dir, Written: []string{}, Removed: []string{}, Unchanged: []string{}, Kept: []string{}}
	switch {
	case o.undo:
		err = t.undo(names, &out)
	case o.check:
		err = t.check(wanted, len(names) == 0, &out)
	default:
		err = t.write(wanted, len(names) == 0, &out)
	}
	if err != nil {
		return err
	}
	return report(c, o, &out)
}

// chosen returns the skills of these names, all that are not held if there are none. Two of one name are an error: a
// client would find one folder.
func chosen(ctx context.Context, c *console.Console, o options, names []string) ([]found, status.Status, error) {
	command := "exthost skills project --client " + o.client
	if o.scope == scopeUser {
		command += " --scope user"
	}
	list, s, err := all(ctx, c)
	if err != nil {
		return nil, s, err
	}
	var wanted []found
	for _, name := range names {
		k, err := choose(list, name, command)
		switch {
		case err != nil:
			return nil, s, err
		case k.held != "":
			return nil, s, &console.Error{Code: console.ExitDenied, Text: console.Safe(k.held)}
		}
		wanted = append(wanted, *k)
	}
	if len(names) == 0 {
		for _, k := range list {
			if k.held == "" {
				wanted = append(wanted, k)
			} else {
				c.Warn("left out: %s", console.Safe(k.held))
			}
		}
	}
	by := make(map[string]string)
	for _, k := range wanted {
		if other := by[k.Name]; other != "" && other != k.path() {
			return nil, s, console.Usagef(command+" "+k.path(),
				"%s and %s would be the same folder: name the skills to write", other, k.path())
		}
		by[k.Name] = k.path()
	}
	slices.SortFunc(wanted, func(a, b found) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(wanted, func(a, b found) bool { return a.Name == b.Name }), s, nil
}

// report prints the outcome. What is not ours fails the command.
func report(c *console.Console, o options, out *projected) error {
	would := ""
	if o.check {
		would = "would be "
	}
	var lines []string
	add := func(verb string, names []string) {
		for _, name := range names {
			lines = append(lines, fmt.Sprintf("%s%s %s", would, verb, filepath.Join(out.Dir, name)))
		}
	}
	add("written", out.Written)
	add("removed", out.Removed)
	for _, kept := range out.Kept {
		lines = append(lines, "not touched: "+kept)
	}
	if len(lines) == 0 && o.undo {
		lines = []string{"exthost has written nothing into " + out.Dir}
	}
	if len(lines) == 0 {
		lines = []string{console.Plural(len(out.Unchanged), "skill") + " in " + out.Dir + ", all up to date"}
	}
	d := console.Document{Kind: "projected", Value: out, Names: slices.Concat(out.Written, out.Removed)}
	for i := range lines {
		lines[i] = console.Safe(lines[i])
	}
	d.Text = strings.Join(lines, "\n") + "\n"
	switch {
	case o.check && len(out.Written)+len(out.Removed)+len(out.Kept) > 0:
		d.Code = console.ExitChecks
	case len(out.Kept) > 0:
		d.Code = console.ExitDenied
	}
	return c.Print(d)
}
