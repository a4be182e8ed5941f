package console

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/exthost/exthost/internal/text"
)

// Group returns a command that only holds others. Without a subcommand it prints its help; for an unknown one it
// returns an error that names the nearest.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return UnknownCommand(c, args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(subs...)
	return cmd
}

// UnknownCommand returns the error for a word that is no command of parent. It suggests a command whose SuggestFor has
// the word, else the only command below parent that has this name, else the command with the nearest name.
func UnknownCommand(parent *cobra.Command, word string) error {
	return Usagef(parent.CommandPath()+" --help", "%s has no command %q%s", parent.CommandPath(), word,
		suggestion(parent, word))
}

func suggestion(parent *cobra.Command, word string) string {
	var names, below []string
	for _, c := range parent.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if slices.Contains(c.SuggestFor, word) {
			return fmt.Sprintf(", did you mean %q?", c.Name())
		}
		names = append(names, c.Name())
		for _, sub := range c.Commands() {
			if sub.Name() == word || slices.Contains(sub.SuggestFor, word) {
				below = append(below, c.Name()+" "+sub.Name())
			}
		}
	}
	if parent.Flags().Lookup(word) != nil {
		return fmt.Sprintf(", did you mean --%s?", word)
	}
	if len(below) == 1 {
		return fmt.Sprintf(", did you mean %q?", below[0])
	}
	return DidYouMean(word, names)
}

// DidYouMean suggests the known word nearest to an unknown one; "" if none is near.
func DidYouMean(word string, known []string) string {
	if near := text.Nearest(word, known); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}

// FlagError returns the error for an invalid flag and suggests the nearest one.
func FlagError(c *cobra.Command, err error) error {
	message := err.Error()
	if name, ok := strings.CutPrefix(message, "unknown flag: --"); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		message = "there is no flag --" + name
		if near := text.Nearest(name, names); near != "" {
			message += ", did you mean --" + near + "?"
		}
	}
	return Usagef(c.CommandPath()+" --help", "%s", message)
}

// exclusive matches cobra's error for flags that exclude each other.
var exclusive = regexp.MustCompile(`^if any flags in the group .*; \[(.*)\] were all set$`)

// ExclusiveFlags makes cobra's error for flags that exclude each other one for a wrong command line. It returns other
// errors as they are.
func ExclusiveFlags(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	set := exclusive.FindStringSubmatch(err.Error())
	if set == nil {
		return err
	}
	return Usagef(c.CommandPath()+" --help", "--%s exclude each other", strings.Join(strings.Fields(set[1]), " and --"))
}

// OneOf returns an error if value is not in allowed.
func OneOf(hint, flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return Usagef(hint, "%s %q: there is %s", flag, value, strings.Join(allowed, ", "))
}

// NoArgs refuses arguments.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef(c.CommandPath()+" --help", "%s takes no arguments, %q is one", c.CommandPath(), args[0])
	}
	return nil
}

// One requires exactly one argument, described by what.
func One(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return Usagef(strings.TrimSuffix(c.UseLine(), " [flags]"), "%s needs %s", c.CommandPath(), what)
		case len(args) > 1:
			return Usagef(strings.TrimSuffix(c.UseLine(), " [flags]"), "%s takes only %s, %q is too much",
				c.CommandPath(), what, args[1])
		}
		return nil
	}
}

// AtMostOne allows one argument, described by what.
func AtMostOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return One(what)(c, args)
	}
}

// AtLeastOne requires arguments. hint and text are those of the error for none.
func AtLeastOne(hint, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef(hint, "%s", text)
		}
		return nil
	}
}

// CompleteFlag registers the values that a shell completes for a flag.
func CompleteFlag(cmd *cobra.Command, name string, values []string) {
	fixed := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(name, fixed); err != nil {
		panic(err) // cmd has no such flag
	}
}
