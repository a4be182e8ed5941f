package main

import (
	"fmt"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
)

func (a *app) configCommand() *cobra.Command {
	var origin bool
	show := &cobra.Command{
		Use: "show", Short: "Print the configuration in force; --origin says where each value comes from", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, origins, err := a.load()
			if err != nil {
				return err
			}
			if !origin && a.flags.output == "table" {
				return a.printYAML(cfg.Redacted())
			}
			settings := cfg.Settings(origins)
			names, rows := []string{}, [][]string{{"KEY", "VALUE", "ORIGIN"}}
			for _, s := range settings {
				names = append(names, s.Key)
				rows = append(rows, []string{s.Key, fmt.Sprint(s.Value), s.Origin})
			}
			return a.print(document{Kind: "settings", Value: settings, Names: names, Rows: rows})
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "a line for each value: key, value, origin")
	return a.group("config", "Look at the configuration", show)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := exthost.Version()
			text := fmt.Sprintf("exthost %s %s %s/%s", v, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return a.print(document{Kind: "version", Value: v, Names: []string{v}, Text: text})
		}}
}
