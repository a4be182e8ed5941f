package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/check"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// reportForms are the forms of check's report beside those of -o.
var reportForms = map[string]func(io.Writer, []check.Result) error{"tap": check.TAP, "junit": check.JUnit}

func (a *app) checkCommand() *cobra.Command {
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
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("exthost check DIR", "%s takes one directory, %q is too much", c.CommandPath(), args[1])
			}
			if form != "" && reportForms[form] == nil {
				return usagef("", "--format %q: there is tap and junit; -o has table, json and yaml", form)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			results, err := a.check(cmd, dir, expected)
			if err != nil {
				return err
			}
			if err := a.printChecks(results, form); err != nil {
				return err
			}
			if check.Failed(results) > 0 {
				return errReported(exitDoctor)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&form, "format", "", "print the report as `FORM`: tap or junit")
	cmd.Flags().StringVar(&expected, "expected", "", "`FILE` with the names of probes that are known to fail, one a line, reasons behind a #")
	completeFlag(cmd, "format", []string{"tap", "junit"})
	return cmd
}

// check probes every extension in a directory, with the operator's configuration
// for it and a state directory that goes afterwards.
func (a *app) check(cmd *cobra.Command, dir, expectedFile string) ([]check.Result, error) {
	var o check.Options
	if expectedFile != "" {
		text, err := readNamed(expectedFile, maxData, "exthost check --help")
		if err != nil {
			return nil, err
		}
		if o.Expected, err = check.ParseExpected(expectedFile, string(text)); err != nil {
			return nil, usagef("", "%v", err)
		}
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{code: exitNotFound, text: "there is no " + dir, hint: "exthost init " + filepath.Base(dir) + " --lang python, which makes one"}
	}
	h, cleanUp, err := a.openFor(cmd, dir)
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
		found, err := check.Run(cmd.Context(), h, x, o)
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

// openFor opens a host for the extensions of one directory alone.
func (a *app) openFor(cmd *cobra.Command, dir string) (*exthost.Host, func(), error) {
	loaded, _, err := a.load()
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
	h, err := a.openWith(cmd.Context(), cfg, exthost.Options{StateDir: state, Mode: exthost.Mode{StartLazy: true}})
	if err != nil {
		os.RemoveAll(state)
		return nil, nil, err
	}
	return h, func() { h.Close(); os.RemoveAll(state) }, nil
}

// nothingToCheck is why there is nothing to probe: no manifest, or invalid ones.
func nothingToCheck(s status.Status, dir string) error {
	var lines []string
	for _, d := range s.Diagnostics {
		if d.Level == protocol.LevelError && (d.Code == manifest.CodeInvalid || d.Code == manifest.CodeTooLarge || d.Code == manifest.CodeUnreadable) {
			lines = append(lines, "  "+safe(nearby(d).String()))
		}
	}
	if lines != nil {
		return &exitError{code: exitInvalid, text: "the manifest is invalid, nothing was started\n" + strings.Join(lines, "\n"), hint: "exthost check, once it is mended"}
	}
	if len(s.Extensions) == 0 {
		return &exitError{code: exitNotFound, text: fmt.Sprintf("there is no %s in %s", manifest.FileName, dir), hint: "exthost init NAME --lang python, which makes one"}
	}
	return nil
}

func (a *app) printChecks(results []check.Result, form string) error {
	if write := reportForms[form]; write != nil {
		var b bytes.Buffer
		if err := write(&b, results); err != nil {
			return err
		}
		_, err := io.WriteString(a.out, safeText(b.String()))
		return err
	}
	return a.print(document{Kind: "checks", Value: orEmpty(results), Rows: a.checkRows(results), Wrap: true})
}

func (a *app) checkRows(results []check.Result) (rows [][]string) {
	counts := make(map[check.Outcome]int)
	last := ""
	var took time.Duration
	for len(results) > 0 {
		r, n := results[0], sameLine(results)
		results = results[n:]
		if r.Extension != last {
			last = r.Extension
			rows = append(rows, []string{"", r.Extension, ""})
		}
		counts[r.Outcome] += n
		took += r.Took
		if n > 1 {
			rows = append(rows, []string{string(r.Outcome), fmt.Sprintf("%d others", n), r.Detail})
			continue
		}
		lines := strings.Split(r.Detail, "\n")
		about := r.About
		if r.Outcome == check.Pass && r.Detail != "" {
			about += " (" + lines[0] + ")"
			lines = nil
		}
		rows = append(rows, []string{string(r.Outcome), r.Probe, about})
		for _, line := range lines {
			if line != "" {
				rows = append(rows, []string{"", "", "→ " + line})
			}
		}
	}
	summary := fmt.Sprintf("%d passed, %d failed", counts[check.Pass]+counts[check.Hint], counts[check.Fail])
	for _, o := range []check.Outcome{check.Hint, check.Known, check.Skip} {
		if counts[o] > 0 {
			summary += fmt.Sprintf(", %d %s", counts[o], map[check.Outcome]string{check.Hint: "with a hint", check.Known: "known to fail", check.Skip: "skipped"}[o])
		}
	}
	return append(rows, []string{summary + ", in " + took.Round(time.Millisecond).String()})
}

// sameLine is how many of the first results are told in one line: those that were
// skipped for the same reason, if they are many, lest they hide the failure behind it.
func sameLine(results []check.Result) (n int) {
	for n < len(results) && results[n].Outcome == check.Skip && results[n].Detail == results[0].Detail && results[n].Extension == results[0].Extension {
		n++
	}
	if n < 4 {
		return 1
	}
	return n
}
