package client

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/listing/toolsearch"
)

// view is what a client sees, as the flags of exthost client add and set state it. A flag that is not given changes
// nothing.
type view struct {
	flags                *cobra.Command
	toolset, mode, scope string
}

func (v *view) addFlags(cmd *cobra.Command) {
	v.flags = cmd
	cmd.Flags().StringVar(&v.toolset, "toolset", "",
		"the `NAME` of the only toolset that it can use (default server.toolset)")
	cmd.Flags().StringVar(&v.mode, "mode", "", "how tools are listed to it: `all`, search or auto (default tools.mode)")
	cmd.Flags().StringVar(&v.scope, "scope", "",
		"`metrics`: its token opens /metrics, and no tools (default: tools)")
}

// of returns c with the stated values.
func (v *view) of(c config.Client) config.Client {
	for _, part := range []struct {
		flag      string
		value, to *string
	}{{"toolset", &v.toolset, &c.Toolset}, {"mode", &v.mode, &c.Mode}, {"scope", &v.scope, &c.Scope}} {
		if v.flags.Flags().Changed(part.flag) {
			*part.to = *part.value
		}
	}
	return c
}

// checkToolset returns the error for a toolset that the client cannot have. One of a project's file is none for a
// client of the user.
func checkToolset(con *console.Console, cfg *config.Config, name string) error {
	if name == "" {
		return nil
	}
	if _, known := cfg.Toolsets[name]; !known {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: "there is no toolset " + name + console.DidYouMean(name, slices.Sorted(maps.Keys(cfg.Toolsets))),
			Hint: "state it under toolsets in the user's configuration; exthost config show shows those there are",
		}
	}
	o := hosts.LoadOptions(con)
	o.NoProject = true
	own, err := config.Load(o)
	if err != nil {
		return err
	}
	if _, known := own.Toolsets[name]; !known {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: "toolset " + name + " is stated by a project's file, which does not say what the user's clients see",
			Hint: "state it in the user's configuration, or in one of --config FILE",
		}
	}
	return nil
}

// check returns the error for values that the configuration would refuse.
func (v *view) check(con *console.Console, cfg *config.Config, c config.Client) error {
	again := "exthost client " + v.flags.Name() + " --help"
	if err := checkToolset(con, cfg, c.Toolset); err != nil {
		return err
	}
	for _, part := range []struct {
		flag, value string
		words       []string
	}{
		{"mode", c.Mode, []string{toolsearch.ModeAll, toolsearch.ModeSearch, toolsearch.ModeAuto}},
		{"scope", c.Scope, []string{config.ScopeMetrics}},
	} {
		if part.value != "" && !slices.Contains(part.words, part.value) {
			return console.Usagef(again, "--%s is %s, not %.80q", part.flag, strings.Join(part.words, " or "),
				part.value)
		}
	}
	if c.Scope != "" && (c.Toolset != "" || c.Mode != "") {
		return console.Usagef(again, "a client of scope %s is listed no tools: leave out --toolset and --mode", c.Scope)
	}
	if c.Scope != "" && c.TokenHash == "" {
		return console.Usagef("exthost client rotate gives it a token", "a client of scope %s needs a token", c.Scope)
	}
	return nil
}

func set(c *console.Console) *cobra.Command {
	var v view
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what a client sees",
		Args:  console.One("the NAME of a client"),
		Long: "Change the toolset of a client, how tools are listed to it, or its scope. Its token stays. An\n" +
			"empty value takes a setting away: --toolset= . Hosts that run apply the change at once; with\n" +
			"another toolset or scope, its sessions end and it has to connect again.",
		Example: "  exthost client set laptop --toolset review --mode search\n  exthost client set laptop --toolset=",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !v.stated() {
				return console.Usagef("exthost client set "+args[0]+" --toolset NAME",
					"state what to change: --toolset, --mode or --scope")
			}
			cfg, err := load(c)
			if err != nil {
				return err
			}
			if was, known := cfg.Server.Clients[args[0]]; known {
				if err := v.check(c, cfg, v.of(was)); err != nil {
					return err
				}
			}
			done, err := change(c, cfg, config.ClientEdit{Name: args[0], Replace: v.of})
			if wanted, ok := errors.AsType[*config.ByHand](err); ok {
				return linesToWrite(wanted, "exthost reload, once the file has these lines")
			}
			if err != nil {
				return err
			}
			c.Tell(console.Safe(args[0] + " is changed: " + console.NearbyPath(done.String())))
			return tell(cmd.Context(), c)
		},
	}
	v.addFlags(cmd)
	return cmd
}

// stated reports whether a flag is given.
func (v *view) stated() bool {
	return slices.ContainsFunc([]string{"toolset", "mode", "scope"}, v.flags.Flags().Changed)
}
