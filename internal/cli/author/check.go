package author

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/authoring/check"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Check returns exthost check, which tests an extension or, by whole, checks a directory that a host serves.
func Check(c *console.Console, whole func(_ context.Context, _ *console.Console, start bool) error) *cobra.Command {
	var form, expected string
	var confined, start bool
	cmd := &cobra.Command{
		Use:         "check [DIR]",
		Short:       "Check what all extensions need, or test the one in DIR",
		Annotations: console.AsksHost,
		Long: "Without DIR, check the configuration, every manifest and the requirements of every extension;\n" +
			"--start also starts each extension, shakes hands with it and stops it again. A check that is\n" +
			"skipped because something is missing is no failure.\n\n" +
			"With DIR, for the author of an extension, start the extension in DIR, or all extensions below it,\n" +
			"and try how it handles ids, noise, bad arguments, floods, cancellation and its end. Its check.json\n" +
			"lists the calls to make. A tool without a call there is called only if it is annotated as\n" +
			"read-only. What was started counts as agreed to, as with exthost dev. In the directory of an\n" +
			"extension that is trusted, DIR is that one.\n\n" +
			"The exit code is 9 when a check fails.",
		Example: "  exthost check\n  exthost check --start\n  exthost check extensions/weather\n" +
			"  exthost check extensions --format junit > report.xml\n" +
			"  exthost check . --expected known-failures.txt\n  exthost check --sandbox extensions/weather",
		SuggestFor: []string{"doctor", "test", "verify"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return console.Usagef("exthost check DIR", "%s takes one directory, %q is too much", cmd.CommandPath(),
					args[1])
			}
			if form != "" && reportForms[form] == nil {
				return console.Usagef("", "--format %q: there is tap and junit; -o has table, json and yaml", form)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if all, err := wholeDirectory(c, cmd, args, start); err != nil {
				return err
			} else if all {
				return whole(cmd.Context(), c, start)
			}
			began := time.Now()
			dir, err := hosts.Directory(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			results, err := checkAll(cmd.Context(), c, dir, expected, confined)
			if err != nil {
				return err
			}
			if err := printResults(c, results, form, time.Since(began)); err != nil {
				return err
			}
			if check.Failed(results) > 0 {
				return console.Reported(console.ExitChecks)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&form, "format", "", "print the report as `FORM`: tap or junit")
	cmd.Flags().StringVar(&expected, "expected", "",
		"`FILE` with the names of probes that are known to fail, one a line, reasons behind a #")
	cmd.Flags().BoolVar(&confined, "sandbox", false,
		"run it in a sandbox, also if it asks for none, and say what to add to [sandbox] (Linux)")
	cmd.Flags().BoolVar(&start, "start", false, "without DIR: start every extension and shake hands with it")
	console.CompleteFlag(cmd, "format", []string{"tap", "junit"})
	return cmd
}

// wholeDirectory reports whether exthost check is about everything that this directory serves, and not about the
// extension in one directory. It returns an error if the flags say both.
func wholeDirectory(c *console.Console, cmd *cobra.Command, args []string, start bool) (bool, error) {
	_, err := os.Lstat(manifest.FileName)
	whole := len(args) == 0 && (err != nil && !packages.IsPlugin(".") || len(c.Extensions) > 0)
	if start && !whole {
		return false, console.Usagef("exthost check --start",
			"--start is about all extensions of a directory; exthost check DIR starts the one in DIR")
	}
	for _, name := range []string{"format", "expected", "sandbox"} {
		if whole && cmd.Flags().Changed(name) {
			return false, console.Usagef("exthost check DIR --"+name, "--%s needs the DIR of an extension", name)
		}
	}
	return whole, nil
}

func checkAll(ctx context.Context, c *console.Console, dir, expectedFile string, confined bool,
) ([]check.Result, error) {
	o := check.Options{Sandbox: confined}
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
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "there is no " + dir,
			Hint: "exthost init " + filepath.Base(dir) + " --lang python, which makes one",
		}
	}
	h, cleanUp, err := openFor(ctx, c, dir, confined)
	if err != nil {
		return nil, err
	}
	defer cleanUp()
	s := h.Status()
	if err := nothingToCheck(s, dir); err != nil {
		return nil, err
	}
	results := pluginResults(s)
	for _, x := range s.Extensions {
		stop := c.Progress(func() string { return "checking " + x.ID })
		found, err := check.Run(ctx, h, x, o)
		stop()
		if protocol.KindOf(err) == protocol.RequirementMissing && len(s.Extensions) > 1 {
			found, err = []check.Result{
				{Extension: x.ID, Probe: "start", About: "the host starts it", Outcome: check.Skip, Detail: x.Reason},
			}, nil
		}
		if protocol.KindOf(err) == protocol.RequirementMissing {
			err = &console.Error{
				Code:  console.ExitGated,
				Text:  fmt.Sprintf("extension %s is %s: %s", x.ID, x.State, x.Reason),
				Hint:  cmp.Or(hosts.Remedy(s, x), "exthost status "+x.ID),
				Cause: err,
			}
		}
		if err != nil {
			return nil, err
		}
		results = append(results, found...)
		if started(found) {
			if err := hosts.TrustFolder(ctx, c, filepath.Dir(x.Path)); err != nil { // its author has just run it
				return nil, err
			}
		}
	}
	return results, nil
}

// pluginResults reports on the plugins among the extensions: a server or a skill that is not used is a failure.
func pluginResults(s status.Status) (results []check.Result) {
	seen := map[string]bool{}
	for _, x := range s.Extensions {
		if filepath.Base(x.Path) != agentplugin.FileName || seen[x.Path] {
			continue
		}
		seen[x.Path] = true
		p := hosts.ReadPlugin(filepath.Dir(x.Path))
		r := check.Result{
			Extension: p.Identity.Name,
			Probe:     "plugin",
			About:     "the plugin is read without complaint, with its servers and skills",
			Outcome:   check.Pass,
		}
		var lines []string
		for _, d := range p.Diagnostics {
			if lines = append(lines, console.Nearby(d).String()); d.Level == protocol.LevelError {
				r.Outcome = check.Fail
			} else if r.Outcome == check.Pass && d.Level == protocol.LevelWarn {
				r.Outcome = check.Hint
			}
		}
		r.Detail = strings.Join(lines, "\n")
		results = append(results, r)
	}
	return results
}

// started reports whether the extension was started, quickly or not. Its author has then seen it run.
func started(found []check.Result) bool {
	return slices.ContainsFunc(found, func(r check.Result) bool {
		return r.Probe == "start" && (r.Outcome == check.Pass || r.Outcome == check.Hint)
	})
}

// openFor opens a host for the extensions of one directory, with the operator's configuration for them. cleanUp closes
// the host and removes its state directory.
func openFor(ctx context.Context, c *console.Console, dir string, confined bool,
) (h *exthost.Host, cleanUp func(), err error) {
	loaded, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return nil, nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	cfg, of := config.Default(), loaded.Extensions
	cfg.Log, cfg.Secrets, cfg.SecretUses = loaded.Log, loaded.Secrets, loaded.SecretUses
	cfg.Extensions.SearchPaths = []string{abs}
	cfg.Extensions.IgnoreDirs, cfg.Extensions.Env = of.IgnoreDirs, of.Env
	cfg.Extensions.Defaults, cfg.Extensions.Entries = of.Defaults, of.Entries
	cfg.Extensions.Sandbox = of.Sandbox
	if confined {
		cfg.Extensions.Sandbox.Default = sandbox.Strict
	}
	removeLeft(os.TempDir())
	state, err := os.MkdirTemp("", checkPrefix)
	if err != nil {
		return nil, nil, err
	}
	packages, err := hosts.Packages(loaded)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(state))
	}
	packages.Editing = true // its user tries another plugin.toml
	h, err = hosts.Open(ctx, c, cfg,
		exthost.Options{StateDir: state, Mode: exthost.Mode{StartLazy: true}, Packages: packages})
	if err != nil {
		os.RemoveAll(state)
		return nil, nil, err
	}
	return h, func() { h.Close(); os.RemoveAll(state) }, nil
}

// A check's state directory has a name that begins with checkPrefix. If it is older than leftAfter, it was left by a
// check that was killed, since no check takes that long.
const (
	checkPrefix = "exthost-check-"
	leftAfter   = 24 * time.Hour
)

// removeLeft removes the directories in dir that killed checks left behind.
func removeLeft(dir string) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if info, err := e.Info(); err == nil && e.IsDir() && strings.HasPrefix(e.Name(), checkPrefix) &&
			time.Since(info.ModTime()) > leftAfter {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // fails for directories of other users
		}
	}
}

// nothingToCheck returns an error if a manifest in the directory is invalid, or if there is none.
func nothingToCheck(s status.Status, dir string) error {
	var lines []string
	for _, d := range s.Diagnostics {
		if d.Level == protocol.LevelError &&
			(d.Code == manifest.CodeInvalid || d.Code == manifest.CodeTooLarge || d.Code == manifest.CodeUnreadable) {
			lines = append(lines, "  "+console.Safe(console.Nearby(d).String()))
		}
	}
	if lines != nil {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: "the manifest is invalid, nothing was started\n" + strings.Join(lines, "\n"),
			Hint: "exthost check, once it is fixed",
		}
	}
	if len(s.Extensions) == 0 {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: fmt.Sprintf("there is no %s in %s, and no %s of a plugin", manifest.FileName, dir,
				agentplugin.FileName),
			Hint: "exthost init NAME --lang python, which makes one",
		}
	}
	return nil
}

// reportForms maps the values of --format that -o does not have to the functions that write these forms.
var reportForms = map[string]func(io.Writer, []check.Result) error{"tap": check.TAP, "junit": check.JUnit}

// printResults prints the report. took is the duration of the check, the start of the extensions included.
func printResults(c *console.Console, results []check.Result, form string, took time.Duration) error {
	if write := reportForms[form]; write != nil {
		var b bytes.Buffer
		if err := write(&b, results); err != nil {
			return err
		}
		_, err := io.WriteString(c.Out, console.SafeText(b.String()))
		return err
	}
	return c.Print(console.Document{
		Kind:  "checks",
		Value: console.OrEmpty(results),
		Rows:  resultRows(results, took),
		Wrap:  true,
	})
}

// resultRows returns the report as a table: a row for each probe, then a summary.
func resultRows(results []check.Result, took time.Duration) (rows [][]string) {
	last, summary := "", []string{summaryOf(results) + ", in " + console.Span(took)}
	for len(results) > 0 {
		r, n := results[0], sameLine(results)
		results = results[n:]
		if r.Extension != last {
			last = r.Extension
			rows = append(rows, []string{"", r.Extension, ""})
		}
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
	return append(rows, summary)
}

func summaryOf(results []check.Result) string {
	counts := make(map[check.Outcome]int)
	for _, r := range results {
		counts[r.Outcome]++
	}
	summary := fmt.Sprintf("%d passed, %d failed", counts[check.Pass]+counts[check.Hint], counts[check.Fail])
	for _, o := range []struct {
		check.Outcome
		words string
	}{{check.Hint, "with a hint"}, {check.Known, "known to fail"}, {check.Skip, "skipped"}} {
		if n := counts[o.Outcome]; n > 0 {
			summary += fmt.Sprintf(", %d %s", n, o.words)
		}
	}
	return summary
}

// sameLine returns how many of the first results to report in one line. At least four probes that were skipped for the
// same reason share a line, so that they do not hide a failure.
func sameLine(results []check.Result) (n int) {
	for n < len(results) && results[n].Outcome == check.Skip && results[n].Detail == results[0].Detail &&
		results[n].Extension == results[0].Extension {
		n++
	}
	if n < 4 {
		return 1
	}
	return n
}
