package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/check"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Check tests an extension.
func Check(c *console.Console) *cobra.Command {
	var form, expected string
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Try an extension on good days and bad ones, for its author",
		Long: "Start the extension in DIR (or all below it; default: this directory) and try what hosts, models\n" +
			"and bad days do to it: ids, noise, bad arguments, floods, cancellation, its end. What it may be\n" +
			"called with is in its check.json; tools that are neither named there nor annotated as reading\n" +
			"only are not called. The exit code is 9 when something fails.",
		Example: "  exthost check extensions/weather\n  exthost check extensions --format junit > report.xml\n" +
			"  exthost check --expected known-failures.txt",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return console.Usagef("exthost check DIR", "%s takes one directory, %q is too much", cmd.CommandPath(), args[1])
			}
			if form != "" && reportForms[form] == nil {
				return console.Usagef("", "--format %q: there is tap and junit; -o has table, json and yaml", form)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := checkAll(cmd.Context(), c, append(args, ".")[0], expected)
			if err != nil {
				return err
			}
			if err := printResults(c, results, form); err != nil {
				return err
			}
			if check.Failed(results) > 0 {
				return console.Reported(console.ExitDoctor)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&form, "format", "", "print the report as `FORM`: tap or junit")
	cmd.Flags().StringVar(&expected, "expected", "", "`FILE` with the names of probes that are known to fail, one a line, reasons behind a #")
	console.CompleteFlag(cmd, "format", []string{"tap", "junit"})
	return cmd
}

// checkAll probes every extension in a directory.
func checkAll(ctx context.Context, c *console.Console, dir, expectedFile string) ([]check.Result, error) {
	var o check.Options
	if expectedFile != "" {
		text, err := console.ReadFile(expectedFile, console.MaxInput, "exthost check --help")
		if err != nil {
			return nil, err
		}
		if o.Expected, err = check.ParseExpected(expectedFile, string(text)); err != nil {
			return nil, console.Usagef("", "%v", err)
		}
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &console.Error{Code: console.ExitNotFound, Text: "there is no " + dir, Hint: "exthost init " + filepath.Base(dir) + " --lang python, which makes one"}
	}
	h, cleanUp, err := openFor(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	s := h.Status()
	if err := nothingToCheck(s, dir); err != nil {
		return nil, err
	}
	var results []check.Result
	for _, x := range s.Extensions {
		found, err := check.Run(ctx, h, x, o)
		if protocol.KindOf(err) == protocol.RequirementMissing && len(s.Extensions) > 1 {
			found, err = []check.Result{{Extension: x.ID, Probe: "start", About: "the host starts it", Outcome: check.Skip, Detail: x.Reason}}, nil
		}
		if err != nil {
			return nil, err
		}
		results = append(results, found...)
	}
	return results, nil
}

// openFor opens a host for the extensions of one directory alone, with the operator's
// configuration for them. cleanUp closes the host and removes its state directory.
func openFor(ctx context.Context, c *console.Console, dir string) (h *exthost.Host, cleanUp func(), err error) {
	loaded, _, err := hosts.Load(c)
	if err != nil {
		return nil, nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	cfg, of := config.Default(), loaded.Extensions
	cfg.Log, cfg.Extensions.SearchPaths = loaded.Log, []string{abs}
	cfg.Extensions.IgnoreDirs, cfg.Extensions.Env, cfg.Extensions.Defaults, cfg.Extensions.Entries = of.IgnoreDirs, of.Env, of.Defaults, of.Entries
	state, err := os.MkdirTemp("", "exthost-check-")
	if err != nil {
		return nil, nil, err
	}
	if h, err = hosts.Open(ctx, c, cfg, exthost.Options{StateDir: state, StartLazy: true}); err != nil {
		os.RemoveAll(state)
		return nil, nil, err
	}
	return h, func() { h.Close(); os.RemoveAll(state) }, nil
}

// nothingToCheck is the error of a directory without a valid manifest; nil: there is one.
func nothingToCheck(s exthost.Status, dir string) error {
	var lines []string
	for _, d := range s.Diagnostics {
		if d.Level == protocol.LevelError && (d.Code == manifest.CodeInvalid || d.Code == manifest.CodeTooLarge || d.Code == manifest.CodeUnreadable) {
			lines = append(lines, "  "+console.Safe(console.Nearby(d).String()))
		}
	}
	if lines != nil {
		return &console.Error{Code: console.ExitInvalid, Text: "the manifest is invalid, nothing was started\n" + strings.Join(lines, "\n"), Hint: "exthost check, once it is mended"}
	}
	if len(s.Extensions) == 0 {
		return &console.Error{Code: console.ExitNotFound, Text: fmt.Sprintf("there is no %s in %s", manifest.FileName, dir), Hint: "exthost init NAME --lang python, which makes one"}
	}
	return nil
}
