// Package author implements the commands for authors: init and check.
package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/authoring/portable"
	"github.com/exthost/exthost/internal/authoring/scaffold"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// Init returns exthost init, which writes a new extension.
func Init(c *console.Console) *cobra.Command {
	var n newExtension
	var update bool
	names, about := scaffold.Languages()
	long := "Write an extension that runs as it is, with examples: plugin.toml, the program, calls for exthost\n" +
		"check. A NAME without a path is written into the first search path. --lang is one of\n"
	for _, name := range names {
		long += fmt.Sprintf("\n  %-7s %s", name, about[name])
	}
	long += "\n\nWith --plugin, write a package of Agent Plugins, which other clients run too: plugin.json,\n" +
		"mcp.json, a server in " + strings.Join(scaffold.PluginLanguages(), " or ") + " and a skill. " +
		"With --from, write the extension in a folder as such\na package, and name what the format does not carry."
	cmd := &cobra.Command{
		Use:   "init NAME --lang LANG",
		Short: "Write a new extension, ready to run",
		Long:  long,
		Example: "  exthost init weather --lang python\n  exthost init ./tools/weather --lang go\n  exthost init " +
			"--update-sdk extensions/weather\n  exthost init reports --lang node --plugin\n  " +
			"exthost init dist/weather --from extensions/weather",
		Args: console.One("the name of the extension"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if update {
				return updateSDK(c, args[0])
			}
			if n.from != "" && n.lang != "" {
				return console.Usagef("exthost init "+args[0]+" --from "+n.from,
					"--lang is for a new program, and --from for one that there is")
			}
			all := names
			if n.plugin {
				all = scaffold.PluginLanguages()
			}
			if n.from == "" && !slices.Contains(all, n.lang) {
				return unknownLanguage(args[0], n.lang, all)
			}
			var err error
			if n.dir, err = targetOf(c, args[0]); err != nil {
				return err
			}
			if n.from != "" {
				return n.carry(cmd.Context(), c)
			}
			return n.create(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&n.lang, "lang", "", "`LANG` of the extension: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&n.plugin, "plugin", false, "write a package of Agent Plugins, for other clients too")
	cmd.Flags().StringVar(&n.from, "from", "", "write the extension in `DIR` as such a package")
	cmd.Flags().BoolVar(&update, "update-sdk", false,
		"replace the SDK beside an extension by this version's; NAME is its directory")
	console.CompleteFlag(cmd, "lang", names)
	return cmd
}

func unknownLanguage(name, lang string, names []string) error {
	message := "--lang is needed: " + strings.Join(names, ", ")
	if lang != "" {
		message = fmt.Sprintf("--lang %q: there is %s", lang, strings.Join(names, ", "))
	}
	return console.Usagef("exthost init "+name+" --lang "+cmp.Or(text.Nearest(lang, names), names[0]), "%s", message)
}

// targetOf returns the directory of a new extension. For a bare name it is a directory below the first search path.
func targetOf(c *console.Console, name string) (string, error) {
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return console.NearbyPath(name), nil
	}
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return "", err
	}
	if len(cfg.Extensions.SearchPaths) > 0 {
		name = filepath.Join(cfg.Extensions.SearchPaths[0], name)
	}
	return console.NearbyPath(name), nil
}

// newExtension is an extension or a plugin to write.
type newExtension struct {
	dir, lang string
	plugin    bool
	from      string // the folder of the extension to write as a plugin; "": a new program
}

// taken returns the error of a folder that has files.
func (n *newExtension) taken(err error) error {
	return &console.Error{
		Code: console.ExitFailed,
		Text: err.Error() + ", and nothing in it is replaced",
		Hint: "another name, or exthost check " + n.dir,
	}
}

// carry writes the extension in n.from as a plugin. It is not trusted by that: n.from may be another person's.
func (n *newExtension) carry(ctx context.Context, c *console.Console) error {
	name, err := n.name()
	if err != nil {
		return err
	}
	made, err := portable.Write(ctx, n.from, n.dir, name)
	switch {
	case errors.Is(err, portable.ErrExists):
		return n.taken(err)
	case err != nil:
		return &console.Error{Code: console.ExitInvalid, Text: console.SafeText(err.Error()), Cause: err}
	}
	fmt.Fprintf(c.Err, "created %s: %s, %s\n", n.dir, console.Plural(len(made.Files), "file"),
		console.Plural(len(made.Servers), "server"))
	for _, text := range made.Lost {
		c.Note(n.from, true, text)
	}
	if len(made.Own) > 0 {
		c.Note(n.from, false, strings.Join(made.Own, ", ")+": in "+agentplugin.Namespace+
			" of plugin.json, which other clients ignore")
	}
	fmt.Fprintf(c.Err, "next: exthost validate %[1]s; exthost check %[1]s\n", n.dir)
	_, err = fmt.Fprintln(c.Out, n.dir)
	return err
}

func (n *newExtension) create(ctx context.Context, c *console.Console) error {
	dir, lang := n.dir, n.lang
	id, err := n.name()
	if err != nil {
		return err
	}
	files, err := scaffold.Create(scaffold.Options{
		ID:      id,
		Dir:     dir,
		Lang:    lang,
		Plugin:  n.plugin,
		Version: exthost.Version(),
	})
	if errors.Is(err, scaffold.ErrExists) {
		return n.taken(err)
	}
	if err != nil {
		return err
	}
	c.Tell("created " + dir + ": " + strings.Join(files, ", "))
	if lang == "go" {
		if err := scaffold.Build(ctx, dir, id); err != nil {
			return &console.Error{
				Code: console.ExitFailed,
				Text: "the extension is written and not built: " + err.Error(),
				Hint: fmt.Sprintf("with a Go toolchain, in %s: go build -mod=mod -o %s .", dir, id),
			}
		}
		fmt.Fprintf(c.Err, "built %s\n", filepath.Join(dir, id))
	}
	if err := hosts.TrustFolder(ctx, c, dir); err != nil { // its owner has just made it
		return err
	}
	next := "dev"
	if n.plugin {
		next = "check"
	}
	fmt.Fprintf(c.Err, "next: exthost %s %s\n", next, dir)
	_, err = fmt.Fprintln(c.Out, dir)
	return err
}

// name returns the id of the extension or the name of the plugin, which is that of the directory.
func (n *newExtension) name() (string, error) {
	abs, err := filepath.Abs(n.dir)
	if err != nil {
		return "", err
	}
	id, what, validate := filepath.Base(abs), "the extension's id", manifest.ValidateID
	if n.plugin || n.from != "" {
		what, validate = "the plugin's name", agentplugin.ValidateName
	}
	if err := validate(id); err != nil {
		return "", console.Usagef("exthost init my-extension --lang python", "the folder's name is %s, and %v", what,
			err)
	}
	return id, nil
}

func updateSDK(c *console.Console, dir string) error {
	replaced, err := scaffold.Update(dir, exthost.Version())
	if err != nil {
		return &console.Error{Code: console.ExitFailed, Text: err.Error()}
	}
	if len(replaced) == 0 {
		fmt.Fprintf(c.Err, "the SDK in %s is that of this version\n", dir)
		return nil
	}
	fmt.Fprintf(c.Err, "replaced %s in %s\nnext: exthost check %s\n", strings.Join(replaced, ", "), dir, dir)
	return nil
}
