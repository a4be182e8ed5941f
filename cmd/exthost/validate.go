package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [DIR | plugin.toml ...]",
		Short: "Check manifests, or without arguments the whole configuration, starting nothing",
		Long: "Check the manifests given, or the configuration and every manifest it finds, and print\n" +
			"all that is wrong with file, line and column. The exit code is 3 when anything is an error.",
		Example: "  exthost validate\n  exthost validate extensions/weather",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.validateAll(cmd)
			}
			var diags []protocol.Diagnostic
			for _, path := range args {
				found, err := validateManifest(path)
				if err != nil {
					return err
				}
				diags = append(diags, found...)
			}
			return a.report(diags, plural(args, "manifest"))
		},
	}
}

func validateManifest(path string) ([]protocol.Diagnostic, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, manifest.FileName)
		_, err = os.Lstat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{code: exitNotFound, text: "there is no " + path, hint: "exthost validate DIR, where DIR/plugin.toml is, or without DIR for all there are"}
	}
	_, found := manifest.ReadFile(path, true)
	return found, nil
}

func (a *app) validateAll(cmd *cobra.Command) error {
	h, err := a.open(cmd.Context(), none)
	if err != nil {
		return err
	}
	defer h.Close()
	s := h.Status()
	return a.report(s.Diagnostics, "the configuration and "+plural(s.Extensions, "extension"))
}

// report prints diagnostics as data and fails when one is an error.
func (a *app) report(diags []protocol.Diagnostic, checked string) error {
	failed := 0
	rows := [][]string{}
	for _, d := range diags {
		if d.Level == protocol.LevelError {
			failed++
		}
		rows = append(rows, []string{string(d.Level) + ": " + nearby(d).String()})
	}
	if failed == 0 {
		rows = append(rows, []string{checked + ": valid"})
	} else {
		rows = append(rows, []string{fmt.Sprintf("%s: %s", checked, plural(make([]struct{}, failed), "error"))})
	}
	err := a.print(document{Kind: "diagnostics", Value: orEmpty(diags), Rows: rows, Wrap: true})
	if err == nil && failed > 0 {
		err = errReported(exitInvalid)
	}
	return err
}

func (a *app) schemaCommand() *cobra.Command {
	sub := func(name, short string, schema func() []byte) *cobra.Command {
		return &cobra.Command{Use: name, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.jsonOnly(cmd); err != nil {
				return err
			}
			_, err := fmt.Fprintln(a.out, string(schema()))
			return err
		}}
	}
	return a.group("schema", "Print the JSON Schema of plugin.toml or of the host's configuration",
		sub("manifest", "The JSON Schema of plugin.toml", manifest.Schema),
		sub("config", "The JSON Schema of exthost.yaml and exthost.toml", config.Schema))
}
