package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/exthost/exthost/internal/nearest"
)

// group is a command that only holds others: alone it shows its help, and a word
// that is none of them is an error that names the nearest.
func (a *app) group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(c, args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(subs...)
	return cmd
}

func unknownCommand(parent *cobra.Command, word string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	text := fmt.Sprintf("%s has no command %q", parent.CommandPath(), word)
	if near := nearest.Of(word, names); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return usagef(parent.CommandPath()+" --help", "%s", text)
}

// flagError explains a flag that cannot be read and names the one that was meant.
func flagError(c *cobra.Command, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		text = "there is no flag --" + name
		if near := nearest.Of(name, names); near != "" {
			text += ", did you mean --" + near + "?"
		}
	}
	return usagef(c.CommandPath()+" --help", "%s", text)
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show what a command does",
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd, strings.Join(rest, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// noArgs refuses arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(c.CommandPath()+" --help", "%s takes no arguments, %q is one", c.CommandPath(), args[0])
	}
	return nil
}

// one wants one argument, described by what.
func one(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef(strings.TrimSuffix(c.UseLine(), " [flags]"), "%s needs %s", c.CommandPath(), what)
		case len(args) > 1:
			return usagef(strings.TrimSuffix(c.UseLine(), " [flags]"), "%s takes only %s, %q is too much", c.CommandPath(), what, args[1])
		}
		return nil
	}
}

// jsonOnly refuses -o yaml and name for a command whose output has one form.
func (a *app) jsonOnly(c *cobra.Command) error {
	if o := a.flags.output; o != "table" && o != "json" {
		return usagef("", "%s prints JSON, there is no -o %s of it", c.CommandPath(), o)
	}
	return nil
}
