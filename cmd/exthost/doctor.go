package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// finding is one thing that doctor has looked at.
type finding struct {
	Check  string   `json:"check"`
	Result string   `json:"result"` // ok, fail or skip
	Detail string   `json:"detail,omitempty"`
	Stderr []string `json:"stderr,omitempty"` // its last words
	Hints  []string `json:"hints,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	var handshake bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration and every extension; --runtime also starts each one",
		Long: "Check the configuration, every manifest and what every extension requires; --runtime also\n" +
			"starts each one, shakes hands with it and stops it again. The exit code is 9 when a check\nfails; what is skipped for want of something is no failure.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings, err := a.diagnose(cmd, handshake)
			if err != nil {
				return err
			}
			failed := 0
			for _, f := range findings {
				if f.Result == "fail" {
					failed++
				}
			}
			rows := findingRows(findings, failed, handshake)
			if _, err := a.running(cmd.Context()); err == nil {
				rows = append(rows, []string{"an exthost runs for this directory; how its extensions fare says exthost status"})
			}
			err = a.print(document{Kind: "findings", Value: findings, Rows: rows, Wrap: true})
			if err == nil && failed > 0 {
				err = errReported(exitDoctor)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&handshake, "runtime", false, "start every extension and shake hands with it")
	return cmd
}

func findingRows(findings []finding, failed int, handshake bool) (rows [][]string) {
	for _, f := range findings {
		rows = append(rows, []string{f.Result, f.Check, f.Detail})
		for _, line := range f.Stderr {
			rows = append(rows, []string{"", "", "stderr: " + line})
		}
		for _, hint := range f.Hints {
			rows = append(rows, []string{"", "", "→ " + hint})
		}
	}
	summary := fmt.Sprintf("%s, %d failed", plural(findings, "check"), failed)
	if !handshake {
		summary += "; nothing was started, exthost doctor --runtime does"
	}
	return append(rows, []string{summary})
}

func (a *app) diagnose(cmd *cobra.Command, handshake bool) ([]finding, error) {
	cfg, _, err := a.load()
	if err != nil {
		return nil, err
	}
	start := none
	if handshake {
		start = nil
	}
	began := time.Now()
	h, err := a.openWith(cmd.Context(), cfg, exthost.Options{Start: start, Mode: exthost.Mode{Inspect: true, StartLazy: handshake}})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	findings := []finding{{Check: "config", Result: "ok", Detail: "searched " + strings.Join(cfg.Extensions.SearchPaths, ", ")}}
	s := h.Status()
	for _, d := range unlisted(s) {
		f := finding{Check: "manifest", Result: "skip", Detail: nearby(d).String()}
		if d.Level == protocol.LevelError {
			f.Result = "fail"
		}
		findings = append(findings, f)
	}
	for _, x := range s.Extensions {
		f := examine("extension", x, s.Diagnostics, handshake)
		if err := findProgram(h, x); err != nil && !handshake && f.Result == "ok" {
			f.Result, f.Detail = "fail", err.Error()
		}
		findings = append(findings, f)
	}
	for _, d := range s.Destinations {
		f := examine("destination", d.Extension, s.Diagnostics, handshake)
		if err := findCommand(d.Command); err != nil && !handshake {
			f.Result, f.Detail = "fail", err.Error()
		}
		findings = append(findings, f)
	}
	for _, p := range s.Policies {
		findings = append(findings, examinePolicy(p, handshake))
	}
	if handshake {
		s = h.Status()
		findings = append(findings, finding{Check: "start", Result: "ok", Detail: fmt.Sprintf("all settled after %s", time.Since(began).Round(time.Millisecond))})
	}
	held := strings.Join(append([]string{s.Containment.String()}, s.Containment.Lacks...), "; ")
	return append(findings, finding{Check: "containment", Result: "ok", Detail: held}), nil
}

// examinePolicy says whether a policy can decide. One that is required and cannot
// lets nothing pass.
func examinePolicy(p status.Policy, handshake bool) finding {
	f := finding{Check: "policy " + p.Name, Result: "ok", Detail: strings.Join([]string{string(p.Category), cmp.Or(p.Builtin, string(p.Kind)), string(p.Mode)}, ", ")}
	if !p.Required {
		f.Detail += ", optional"
	}
	switch {
	case p.State == status.StateDisabled:
		f.Result, f.Detail = "skip", "disabled"
	case p.Process == nil:
	case handshake && p.State != string(supervisor.Ready):
		f.Result, f.Detail = "fail", cmp.Or(p.Reason, "it is "+p.State)
		if e := evidence(*p.Process); e != nil {
			f.Stderr = e.Stderr
		}
	case !handshake:
		if err := findCommand(p.Process.Command); err != nil {
			f.Result, f.Detail = "fail", err.Error()
		}
	}
	return f
}

// findCommand looks for the program of a command line, or for a script, which need not
// be executable.
func findCommand(argv []string) error {
	if len(argv) == 0 || strings.Contains(argv[0], "://") {
		return nil
	}
	path, err := process.Resolve(argv[0], "", os.Getenv("PATH"))
	if err != nil {
		return err
	}
	if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &process.StartError{Reason: process.NotFound, Path: path, Err: err}
	}
	return err
}

// findProgram looks for what an extension is run with, where its own environment and
// directory say. The commands of kind exec have been looked for when its tools were made.
func findProgram(h *exthost.Host, x status.Extension) error {
	if x.Transport != manifest.KindStdio {
		return nil
	}
	spec, err := h.Admin().Spec(x.ID)
	if err != nil {
		return nil // it may not run here, which is said
	}
	argv, err := runtime.CommandLine(&spec)
	if err != nil {
		return err
	}
	return findCommand(argv)
}

// examine says whether an extension, or a destination, can run.
func examine(what string, x status.Extension, diags []protocol.Diagnostic, handshake bool) finding {
	f := finding{Check: what + " " + x.ID, Result: "ok", Detail: strings.TrimSpace(x.Version + " " + runsAs(x))}
	for _, d := range diags {
		if !concerns(d, x) || d.Level == protocol.LevelInfo {
			continue
		}
		hint := d.Hint
		if !said(x, d) {
			hint = strings.TrimSuffix(d.Message+"; "+d.Hint, "; ")
		}
		if hint != "" {
			f.Hints = append(f.Hints, hint)
		}
	}
	switch {
	case x.State == status.StateSkipped:
		f.Result, f.Detail = "skip", x.Reason
		if broken(x, diags) {
			f.Result = "fail"
		}
	case x.State == status.StateDisabled:
		f.Result, f.Detail = "skip", x.Reason
	case handshake && x.State != string(supervisor.Ready) && x.Reason != "":
		f.Result, f.Detail = "fail", x.Reason
		if e := evidence(x); e != nil {
			f.Stderr = e.Stderr
		}
	case len(x.Tools) > 0:
		f.Detail += ", " + plural(x.Tools, "tool")
	}
	return f
}

// broken reports whether something is wrong with the extension itself or its
// configuration, and not only with what it finds on this machine.
func broken(x status.Extension, diags []protocol.Diagnostic) bool {
	for _, d := range diags {
		if concerns(d, x) && d.Level == protocol.LevelError {
			return true
		}
	}
	return false
}
