package inspect

import (
	"fmt"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Config shows the configuration.
func Config(c *console.Console) *cobra.Command {
	var origin bool
	show := &cobra.Command{
		Use: "show", Short: "Print the configuration in force; --origin says where each value comes from", Args: console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, origins, err := hosts.Load(c)
			if err != nil {
				return err
			}
			if !origin && c.Output == "table" {
				return c.PrintYAML(cfg.Redacted())
			}
			settings := cfg.Settings(origins)
			names, rows := []string{}, [][]string{{"KEY", "VALUE", "ORIGIN"}}
			for _, s := range settings {
				names = append(names, s.Key)
				rows = append(rows, []string{s.Key, fmt.Sprint(s.Value), s.Origin})
			}
			return c.Print(console.Document{Kind: "settings", Value: settings, Names: names, Rows: rows})
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "a line for each value: key, value, origin")
	return console.Group("config", "Look at the configuration", show)
}

// Version prints the version.
func Version(c *console.Console) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := exthost.Version()
			text := fmt.Sprintf("exthost %s %s %s/%s", v, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return c.Print(console.Document{Kind: "version", Value: v, Names: []string{v}, Text: text})
		}}
}
