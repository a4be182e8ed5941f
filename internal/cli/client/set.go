package client

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
)

// view is what a client sees and may approve, as the flags of exthost client add and set state it. A flag that is not
// given changes nothing.
type view struct {
	flags                *cobra.Command
	toolset, mode, scope string
	approves             []string
}

func (v *view) addFlags(cmd *cobra.Command) {
	v.flags = cmd
	cmd.Flags().StringVar(&v.toolset, "toolset", "",
		"the `NAME` of the only toolset that it can use (default server.toolset)")
	cmd.Flags().StringVar(&v.mode, "mode", "", "how tools are listed to it: `all`, search or auto (default tools.mode)")
	cmd.Flags().StringVar(&v.scope, "scope", "",
		"`metrics`: its token opens /metrics, and no tools (default: tools)")
	cmd.Flags().StringSliceVar(&v.approves, "approves", nil,
		"the `RISKS` of calls that its person may approve in it: read, write, destroy (default none)")
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
	if v.flags.Flags().Changed("approves") {
		c.Approves = nil
		for _, risk := range v.approves {
			c.Approves = append(c.Approves, protocol.Risk(risk))
		}
	}
	return c
}

func set(c *console.Console) *cobra.Command {
	var v view
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what a client sees and may approve",
		Args:  console.One("the NAME of a client"),
		Long: "Change the toolset of a client, how tools are listed to it, its scope, or what its person may\n" +
			"approve. Its token stays. An empty value takes a setting away: --toolset= . Hosts that run\n" +
			"apply the change at once; with another toolset or scope, its sessions end and it has to\n" +
			"connect again.",
		Example: "  exthost client set laptop --toolset review --mode search\n" +
			"  exthost client set laptop --approves read,write\n  exthost client set laptop --toolset=",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !v.stated() {
				return console.Usagef("exthost client set "+args[0]+" --toolset NAME",
					"state what to change: --toolset, --mode, --scope or --approves")
			}
			cfg, err := load(c)
			if err != nil {
				return err
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
	return slices.ContainsFunc([]string{"toolset", "mode", "scope", "approves"}, v.flags.Flags().Changed)
}
