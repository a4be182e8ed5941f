// Package packages implements the commands that add third-party packages and servers as extensions, and keep them up to
// date.
package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/manifest"
)

// terms holds the flags for how a package is added.
type terms struct {
	id      string
	scripts []string // packages whose install scripts may run
	ages    []string // DURATION or NAME=DURATION
	program string   // of the package; "" for its only one
	env     []string // variables that the program needs, NAME, or is given, NAME=VALUE
	yes     bool
	locked  bool
}

func (t *terms) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&t.scripts, "allow-scripts", nil, "run the install scripts of the `PACKAGE`; without it none run")
	f.StringArrayVar(&t.ages, "min-release-age", nil,
		"`AGE` that all parts must have, or NAME=AGE for one package (default extensions.min_release_age)")
	f.BoolVarP(&t.yes, "yes", "y", false, "agree without a question, and print to what")
}

// Add returns exthost add.
func Add(c *console.Console) *cobra.Command {
	var t terms
	var lists bool
	cmd := &cobra.Command{
		Use:   "add SOURCE [-- ARG...]",
		Short: "Add a package of other people as an extension, locked by hashes",
		Long: "Resolve a package, download it and what it needs, compare all of it with the hashes of the\n" +
			"registry, write an extension that runs it with node or python3, show what it runs and asks for,\n" +
			"and after your yes start it once and list its tools. A plugin, a package with a plugin.json, is\n" +
			"copied into the search path after your yes, and has all its servers and skills. exthost.lock\n" +
			"states every hash; each start compares them, and asks no network. Install scripts do not run. A\n" +
			"SOURCE is " + packages.Forms + ". What follows -- are arguments of the program.\n" +
			"With --locked, fetch what exthost.lock names and this machine lacks; SOURCE is then an ID.",
		Example: "  exthost add npm:@modelcontextprotocol/server-memory@^2026\n  exthost add " +
			"npm:@modelcontextprotocol/server-filesystem -- /srv/data\n  exthost add --locked",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.locked {
				return t.fetchLocked(cmd.Context(), c, args)
			}
			if lists && len(args) == 1 {
				return t.list(cmd.Context(), c, args[0])
			}
			if len(args) == 0 {
				return console.Usagef("exthost add npm:NAME", "a SOURCE is needed: %s", packages.Forms)
			}
			if len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return console.Usagef("exthost add "+args[0]+" -- "+strings.Join(args[1:], " "),
					"arguments of the program follow --")
			}
			return t.add(cmd.Context(), c, args[0], args[1:])
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&t.id, "id", "", "`ID` of the extension (default: made of the package's name)")
	cmd.Flags().BoolVar(&lists, "list", false, "list the plugins of a marketplace, which SOURCE#NAME adds")
	cmd.Flags().StringVar(&t.program, "program", "", "`NAME` of the program to run, of a package that has several")
	cmd.Flags().StringArrayVar(&t.env, "env", nil,
		"`NAME` of a variable that the program needs, or NAME=VALUE; a secret is passed on by its name alone")
	cmd.Flags().BoolVar(&t.locked, "locked", false, "fetch what exthost.lock names, and nothing else")
	return cmd
}

// installer returns an installer with the terms.
func (t *terms) installer(cfg *config.Config) (*packages.Installer, error) {
	s, err := hosts.PackageStore()
	if err != nil {
		return nil, err
	}
	i := &packages.Installer{
		Store:        s,
		Translate:    translate,
		Dir:          cfg.Project.Dir,
		MinAge:       cfg.Extensions.MinReleaseAge.Std(),
		AllowScripts: t.scripts,
	}
	for _, text := range t.ages {
		name, age, single := cutLast(text, "=")
		if !single {
			age = text
		}
		d, err := manifest.ParseDuration(age)
		switch {
		case err != nil:
			return nil, console.Usagef("exthost add --min-release-age 24h", "--min-release-age %s: %v", text, err)
		case !single:
			i.MinAge = d.Std()
		default:
			if i.AgeOf == nil {
				i.AgeOf = map[string]time.Duration{}
			}
			i.AgeOf[name] = d.Std()
		}
	}
	return i, nil
}

// variables returns the names that --env asks for and the values that it states.
func (t *terms) variables() (asks []string, env map[string]string, err error) {
	env = map[string]string{}
	for _, text := range t.env {
		name, value, stated := strings.Cut(text, "=")
		switch {
		case !variable.MatchString(name):
			return nil, nil, console.Usagef("exthost add SOURCE --env NAME", "--env %s: %q is no name of a variable",
				text, name)
		case !stated:
			asks = append(asks, name)
		case process.Withholds(name, value) && !secrets.Refers(value):
			return nil, nil, console.Usagef("exthost secret set "+strings.ToLower(name)+"; then --env "+name+
				"=secret://"+strings.ToLower(name),
				"--env %s=…: it looks like a secret, and plugin.toml is no place for one", name)
		default:
			env[name] = value
		}
	}
	return asks, env, nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func cutLast(s, sep string) (before, after string, found bool) {
	if n := strings.LastIndex(s, sep); n >= 0 {
		return s[:n], s[n+len(sep):], true
	}
	return s, "", false
}

func (t *terms) add(ctx context.Context, c *console.Console, text string, args []string) (err error) {
	source, err := packages.Parse(text)
	if err != nil {
		return console.Usagef("exthost add npm:NAME", "%v", err)
	}
	if source.Program == "" {
		source.Program = t.program
	}
	asks, env, err := t.variables()
	if err != nil {
		return err
	}
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return err
	}
	id := cmp.Or(t.id, source.ID())
	d, err := newDraft(c, cfg, id)
	if err != nil {
		return err
	}
	if err := d.absent(); err != nil {
		return err
	}
	i, err := t.installer(cfg)
	if err != nil {
		return err
	}
	p, err := resolveListed(ctx, c, i, source)
	if err != nil {
		return err
	}
	if p.Run.Plugin != nil {
		return t.addPlugin(ctx, c, cfg, i.Store, p, text, args)
	}
	if err := manifest.ValidateID(id); err != nil {
		return errors.Join(console.Usagef("exthost add "+text+" --id ID", "%v", err), release(c, p.Tree))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undo())
		}
	}()
	lookup := process.Lookup(os.Environ())
	data := documented(p, func(name string) bool {
		_, stated := lookup(name)
		return stated || slices.Contains(asks, name) || env[name] != ""
	})
	if data, err = unmoved(c, i, p, id, data); err != nil {
		return err
	}
	u := users{args: args, asks: asks, env: env, data: data, cwd: packages.State}
	if err := d.write(ctx, p, manifestOf(p, id, u)); err != nil {
		return err
	}
	describe(c, p, data)
	if err := d.agree(ctx, t.yes, "exthost add "+text+" --yes"); err != nil {
		return err
	}
	if err := d.try(ctx, t.yes); err != nil {
		return err
	}
	return hosts.Apply(ctx, c, cfg, "added "+id+": "+console.NearbyPath(d.dir)+" and exthost.lock; commit both")
}

// unmoved removes from data the variables whose data already lies beside the code, because an earlier version of
// exthost add did not set them. Set now, they would make the program look for its data elsewhere.
func unmoved(c *console.Console, i *packages.Installer, p *packages.Package, id string, data []packages.Data,
) ([]packages.Data, error) {
	_, beside, err := i.Store.Verify(p.Tree)
	if err != nil {
		return nil, err
	}
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(data, func(d packages.Data) bool {
		n := slices.IndexFunc(beside, func(name string) bool { return path.Base(name) == d.Path })
		_, err := os.Lstat(filepath.Join(state, id, d.Path))
		if n < 0 || err == nil {
			return false
		}
		c.Tell(console.Safe(fmt.Sprintf("it finds its data beside its code, %s; %s in plugin.toml would have it "+
			"elsewhere", beside[n], d.Name)))
		return true
	}), nil
}

// resolve resolves and downloads a package into the store.
func resolve(ctx context.Context, c *console.Console, i *packages.Installer, s packages.Source,
) (*packages.Package, error) {
	defer c.Progress(func() string { return "fetching " + s.String() })()
	p, err := i.Add(ctx, s)
	if err != nil {
		return nil, &console.Error{Code: console.ExitFailed, Text: console.Safe(err.Error()), Cause: err}
	}
	return p, nil
}

// describe prints what a package contains.
func describe(c *console.Console, p *packages.Package, data []packages.Data) {
	tellLeft(c, "set aside, because the package has others or none in their place", p.Aside)
	first := p.Parts[0]
	c.Tell(console.Safe(fmt.Sprintf("%s is %s %s, with %s of others", p.Source, first.Name, p.Version,
		console.Plural(len(p.Parts)-1, "package"))))
	if len(p.Held) > 0 {
		c.Tell(console.Safe(fmt.Sprintf("  install scripts that did not run: %s; --allow-scripts NAME runs them",
			strings.Join(p.Held, ", "))))
	}
	if len(p.Scripts) > 0 {
		c.Tell(console.Safe("  install scripts that ran: " + strings.Join(p.Scripts, ", ")))
	}
	for _, d := range data {
		c.Tell(console.Safe(fmt.Sprintf("  %s, which its README documents for its data: plugin.toml sets it to %s/%s",
			d.Name, packages.State, d.Path)))
	}
	fmt.Fprintln(c.Err)
}

// fetchLocked downloads the packages in the lock file into the store: all of them, or those of ids.
func (t *terms) fetchLocked(ctx context.Context, c *console.Console, ids []string) error {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	i, err := t.installer(cfg)
	if err != nil {
		return err
	}
	f, ids, err := readPackages(cfg, ids)
	if err != nil {
		return err
	}
	if err := remember(cfg); err != nil {
		return err
	}
	for _, id := range ids {
		if err := fetch(ctx, c, cfg, i, id, f.Extensions[id]); err != nil {
			return err
		}
	}
	return hosts.Apply(ctx, c, cfg,
		console.Plural(len(ids), "package")+" of exthost.lock: on this machine, with the hashes that it states")
}

// fetch downloads the package of one lock file entry into the store. A plugin is copied into its folder, unless it is
// there as the lock file states it.
func fetch(ctx context.Context, c *console.Console, cfg *config.Config, i *packages.Installer, id string, e lock.Entry,
) error {
	d, err := draftOf(c, cfg, id, e)
	if err != nil {
		return err
	}
	if d.store != nil && d.store.VerifyCopy(e.Tree, d.dir) == nil {
		return nil
	}
	if err := download(ctx, c, i, id, e); err != nil {
		return err
	}
	if tree, err := i.Store.Path(e.Tree); err == nil && packages.IsPlugin(tree) {
		return d.restorePlugin(&i.Store, e)
	}
	return nil
}

// download downloads the package of one lock file entry into the store.
func download(ctx context.Context, c *console.Console, i *packages.Installer, id string, e lock.Entry) error {
	defer c.Progress(func() string { return "fetching " + e.Source })()
	aside, err := i.Fetch(ctx, e)
	tellLeft(c, "set aside, because the package has others or none in their place", aside)
	if err != nil {
		return &console.Error{
			Code:  console.ExitFailed,
			Text:  console.Safe(id + ": " + err.Error()),
			Hint:  "ask who wrote exthost.lock; exthost upgrade " + id + " takes what there is now",
			Cause: err,
		}
	}
	return nil
}
