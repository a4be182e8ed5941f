package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/internal/scaffold"
	"github.com/exthost/exthost/manifest"
)

func (a *app) initCommand() *cobra.Command {
	var lang string
	var update bool
	names, about := scaffold.Languages()
	long := "Write an extension that runs as it is, with an example of everything: plugin.toml, the program,\n" +
		"calls for exthost check. NAME alone goes into the first search path, a path goes there. --lang is\n"
	for _, name := range names {
		long += fmt.Sprintf("\n  %-7s %s", name, about[name])
	}
	cmd := &cobra.Command{
		Use:     "init NAME --lang LANG",
		Short:   "Write a new extension, ready to run",
		Long:    long,
		Example: "  exthost init weather --lang python\n  exthost init ./tools/weather --lang go\n  exthost init --update-sdk extensions/weather",
		Args:    one("the name of the extension"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if update {
				return a.updateSDK(args[0])
			}
			if !slices.Contains(names, lang) {
				return unknownLanguage(args[0], lang, names)
			}
			return a.init(cmd, args[0], lang)
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "`LANG` of the extension: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&update, "update-sdk", false, "replace the SDK beside an extension by this version's; NAME is its directory")
	completeFlag(cmd, "lang", names)
	return cmd
}

func unknownLanguage(name, lang string, names []string) error {
	text := "--lang is needed: " + strings.Join(names, ", ")
	if lang != "" {
		text = fmt.Sprintf("--lang %q: there is %s", lang, strings.Join(names, ", "))
	}
	return usagef("exthost init "+name+" --lang "+cmp.Or(nearest.Of(lang, names), names[0]), "%s", text)
}

func (a *app) init(cmd *cobra.Command, name, lang string) error {
	dir := name
	if !strings.ContainsAny(name, `/\`) && name != "." && name != ".." {
		cfg, _, err := a.load()
		if err != nil {
			return err
		}
		dir = name
		if len(cfg.Extensions.SearchPaths) > 0 {
			dir = filepath.Join(cfg.Extensions.SearchPaths[0], name)
		}
	}
	dir = nearbyPath(dir)
	id, err := idOf(dir)
	if err != nil {
		return err
	}
	files, err := scaffold.Create(scaffold.Options{ID: id, Dir: dir, Lang: lang, Version: exthost.Version()})
	if errors.Is(err, scaffold.ErrExists) {
		return &exitError{code: exitFailed, text: err.Error() + ", and nothing in it is replaced", hint: "another name, or exthost check " + dir}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "created %s: %s\n", dir, strings.Join(files, ", "))
	if lang == "go" {
		if err := scaffold.Build(cmd.Context(), dir, id); err != nil {
			return &exitError{code: exitFailed, text: "the extension is written and not built: " + err.Error(),
				hint: fmt.Sprintf("with a Go toolchain, in %s: go build -mod=mod -o %s .", dir, id)}
		}
		fmt.Fprintf(a.err, "built %s\n", filepath.Join(dir, id))
	}
	fmt.Fprintf(a.err, "next: exthost check %s\n", dir)
	_, err = fmt.Fprintln(a.out, dir)
	return err
}

// nearbyPath is a path as it is seen from the working directory, if it is below.
func nearbyPath(path string) string {
	wd, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// nearbyText is a text with the paths in it as they are seen from the working
// directory.
func nearbyText(text string) string {
	wd, err := os.Getwd()
	if err != nil {
		return text
	}
	return strings.ReplaceAll(text, wd+string(filepath.Separator), "")
}

// idOf is the id of an extension in a directory of that name.
func idOf(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	id := filepath.Base(abs)
	if err := manifest.ValidateID(id); err != nil {
		return "", usagef("exthost init my-extension --lang python", "the folder's name is the extension's id, and %v", err)
	}
	return id, nil
}

func (a *app) updateSDK(dir string) error {
	replaced, err := scaffold.Update(dir, exthost.Version())
	if err != nil {
		return &exitError{code: exitFailed, text: err.Error()}
	}
	if len(replaced) == 0 {
		fmt.Fprintf(a.err, "the SDK in %s is that of this version\n", dir)
		return nil
	}
	fmt.Fprintf(a.err, "replaced %s in %s\nnext: exthost check %s\n", strings.Join(replaced, ", "), dir, dir)
	return nil
}
