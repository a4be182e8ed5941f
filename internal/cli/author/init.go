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
	"github.com/exthost/exthost/internal/authoring/scaffold"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
)

// Init returns exthost init, which writes a new extension.
func Init(c *console.Console) *cobra.Command {
	var lang string
	var update bool
	names, about := scaffold.Languages()
	long := "Write an extension that runs as it is, with examples: plugin.toml, the program, calls for exthost\n" +
		"check. A NAME without a path is written into the first search path. --lang is one of\n"
	for _, name := range names {
		long += fmt.Sprintf("\n  %-7s %s", name, about[name])
	}
	cmd := &cobra.Command{
		Use:   "init NAME --lang LANG",
		Short: "Write a new extension, ready to run",
		Long:  long,
		Example: "  exthost init weather --lang python\n  exthost init ./tools/weather --lang go\n  exthost init " +
			"--update-sdk extensions/weather",
		Args: console.One("the name of the extension"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if update {
				return updateSDK(c, args[0])
			}
			if !slices.Contains(names, lang) {
				return unknownLanguage(args[0], lang, names)
			}
			dir, err := targetOf(c, args[0])
			if err != nil {
				return err
			}
			return create(cmd.Context(), c, dir, lang)
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "`LANG` of the extension: "+strings.Join(names, ", "))
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

func create(ctx context.Context, c *console.Console, dir, lang string) error {
	id, err := idOf(dir)
	if err != nil {
		return err
	}
	files, err := scaffold.Create(scaffold.Options{ID: id, Dir: dir, Lang: lang, Version: exthost.Version()})
	if errors.Is(err, scaffold.ErrExists) {
		return &console.Error{
			Code: console.ExitFailed,
			Text: err.Error() + ", and nothing in it is replaced",
			Hint: "another name, or exthost check " + dir,
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "created %s: %s\n", dir, strings.Join(files, ", "))
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
	fmt.Fprintf(c.Err, "next: exthost dev %s\n", dir)
	_, err = fmt.Fprintln(c.Out, dir)
	return err
}

// idOf returns the id of the extension in dir, which is the directory's name.
func idOf(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	id := filepath.Base(abs)
	if err := manifest.ValidateID(id); err != nil {
		return "", console.Usagef("exthost init my-extension --lang python",
			"the folder's name is the extension's id, and %v", err)
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
