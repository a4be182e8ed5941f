package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/supply/launcher"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Check checks everything that the extensions of this directory need to run, as exthost check does without a
// directory. With handshake it also starts each of them.
func Check(ctx context.Context, c *console.Console, handshake bool) error {
	findings, err := diagnose(ctx, c, handshake)
	if err != nil {
		return err
	}
	failed, code := 0, console.ExitOK
	for _, f := range findings {
		if f.Result == "fail" {
			failed, code = failed+1, console.ExitChecks
		}
	}
	rows := findingRows(findings, failed, handshake)
	if _, err := hosts.Find(ctx); err == nil {
		rows = append(rows, []string{"a host is running in this directory; exthost status shows its extensions"})
	}
	return c.Print(console.Document{Kind: "findings", Value: findings, Rows: rows, Wrap: true, Code: code})
}

type finding struct {
	Check  string   `json:"check"`
	Result string   `json:"result"` // ok, fail or skip
	Detail string   `json:"detail,omitempty"`
	Stderr []string `json:"stderr,omitempty"` // last lines of a failed process
	Hints  []string `json:"hints,omitempty"`
}

// fail marks the check as failed. e is the output of the process, or nil.
func (f *finding) fail(detail string, e *protocol.Evidence) {
	f.Result, f.Detail = "fail", detail
	if e != nil {
		f.Stderr = e.Stderr
	}
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
	summary := fmt.Sprintf("%s, %d failed", console.Plural(len(findings), "check"), failed)
	if !handshake {
		summary += "; nothing was started, exthost check --start does"
	}
	return append(rows, []string{summary})
}

func diagnose(ctx context.Context, c *console.Console, handshake bool) ([]finding, error) {
	r, cfg, err := hosts.Reach(ctx, c)
	if refused, ok := errors.AsType[config.Refused](err); ok {
		return diagnoseBroken(ctx, r, refused)
	}
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var h *exthost.Host
	if handshake {
		h, err = hosts.Open(ctx, c, cfg, exthost.Options{Mode: exthost.Mode{Inspect: true, StartLazy: true}})
	} else {
		h, err = hosts.Examine(ctx, c, cfg)
	}
	if err != nil {
		return nil, err
	}
	defer h.Close()
	findings := []finding{
		{Check: "config", Result: "ok", Detail: "searched " + strings.Join(cfg.Extensions.SearchPaths, ", ")},
	}
	s := h.Status()
	running := status.Status{Host: &status.Host{MaxFiles: process.OpenFiles(), Full: h.Admin().Status().Host.Full}}
	if r != nil && !handshake {
		if running, err = r.Status(ctx); err != nil {
			return nil, err
		}
		s = hosts.Overlay(s, running)
		s.Tracing, s.Cluster = running.Tracing, running.Cluster
	}
	if len(s.Extensions) == 0 {
		findings[0].Hints = []string{"no extension was found: exthost init NAME --lang python writes one"}
	}
	findings = append(findings, examineAll(h, s, handshake)...)
	if handshake {
		s = h.Status()
		findings = append(findings,
			finding{
				Check:  "start",
				Result: "ok",
				Detail: fmt.Sprintf("all settled after %s", time.Since(began).Round(time.Millisecond)),
			})
	}
	if !failing(findings, "policy audit_log") { // that check reports the same fault
		findings = append(findings, auditLog(cfg.Audit)...)
	}
	findings = append(findings, certificate(cfg.Server.TLS)...)
	findings = append(findings, localLimits(cfg.Plugins, s)...)
	findings = append(findings, collector(s.Tracing)...)
	findings = append(findings, inCluster(s)...)
	held := strings.Join(append([]string{s.Containment.String()}, s.Containment.Lacks...), "; ")
	findings = append(findings, finding{Check: "containment", Result: "ok", Detail: held})
	findings = append(findings, sandboxes(s, process.Protection())...)
	findings = append(findings, privileges(s)...)
	return join(slices.Concat(findings, openFiles(running), full(running.Host)), running), nil
}

// join marks as failed the extensions and destinations whose files are right, but whose calls do not all pass in the
// running host: an open breaker, restarts, calls that keep failing.
func join(findings []finding, running status.Status) []finding {
	for _, o := range running.Verdict.Causes {
		i := slices.IndexFunc(findings, func(f finding) bool {
			return f.Check == "extension "+o.ID || f.Check == "destination "+o.ID
		})
		if i < 0 || findings[i].Result != "ok" {
			continue
		}
		x, _ := hosts.Worker(running, o.ID) // without evidence if there is none
		findings[i].fail(o.Text, hosts.Evidence(x))
		findings[i].Hints = append(findings[i].Hints, o.Next)
	}
	return findings
}

// diagnoseBroken makes the checks that need no valid configuration, such as those of the running host, which still uses
// its previous configuration.
func diagnoseBroken(ctx context.Context, r *hosts.Running, refused config.Refused) (findings []finding, err error) {
	for _, d := range refused {
		if d.Level == protocol.LevelError {
			findings = append(findings, finding{Check: "config", Result: "fail", Detail: console.Nearby(d).String()})
		}
	}
	s := status.Status{Host: &status.Host{MaxFiles: process.OpenFiles()}}
	if r == nil {
		findings = append(findings,
			finding{
				Check:  "extensions",
				Result: "skip",
				Detail: "nothing is looked for before the configuration can be used",
			})
	} else {
		if s, err = r.Status(ctx); err != nil {
			return nil, err
		}
		s.Diagnostics = slices.DeleteFunc(s.Diagnostics, func(d protocol.Diagnostic) bool {
			return d.Code == string(protocol.ConfigInvalid) && d.Extension == "" // listed above
		})
		findings = append(findings, examineAll(nil, s, false)...)
	}
	return join(slices.Concat(findings, openFiles(s), full(s.Host)), s), nil
}

// sandboxes reports what this system enforces of a sandbox, and which extensions ask for more.
func sandboxes(s status.Status, have sandbox.Protection) (findings []finding) {
	f := finding{Check: "sandbox", Result: "ok", Detail: "this system enforces " + strings.Join(have.Holds, ", ")}
	if len(have.Holds) == 0 {
		f.Detail = "this system enforces no sandbox"
	}
	for _, lack := range have.Lacks {
		f.Hints = append(f.Hints, "NOT enforced: "+lack)
	}
	findings = append(findings, f)
	for _, x := range s.Extensions {
		if x.Sandbox != nil && x.Sandbox.MayRefuse != "" {
			findings = append(findings, finding{
				Check:  "sandbox",
				Result: "ok",
				Detail: x.ID + ": its sandbox may have refused this: " + x.Sandbox.MayRefuse,
				Hints:  []string{"exthost check --sandbox " + console.NearbyPath(filepath.Dir(x.Path))},
			})
		}
		if x.Sandbox == nil || len(x.Sandbox.Lacks) == 0 {
			continue
		}
		f := finding{
			Check:  "sandbox",
			Result: "ok",
			Detail: fmt.Sprintf("%s runs with less than it asks for (best_effort): %s", x.ID,
				strings.Join(x.Sandbox.Lacks, "; ")),
		}
		if !x.Sandbox.BestEffort {
			f.fail(fmt.Sprintf("%s asks for more than this system enforces, and does not start: %s", x.ID,
				strings.Join(x.Sandbox.Lacks, "; ")), nil)
			f.Hints = []string{
				fmt.Sprintf("best_effort = true in its [sandbox] starts it with the rest; "+
					"extensions.entries.%s.sandbox: off without any", x.ID),
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// privileges reports which capabilities processes keep if the host runs as root; nil for other users.
func privileges(s status.Status) []finding {
	if os.Geteuid() != 0 || !process.CanRestrict {
		return nil
	}
	var all []string // ids that keep every capability
	for _, x := range s.Extensions {
		if x.NewPrivileges {
			all = append(all, x.ID)
		}
	}
	for _, d := range s.Destinations {
		if d.NewPrivileges {
			all = append(all, d.ID)
		}
	}
	f := finding{
		Check:  "privileges",
		Result: "ok",
		Detail: "root's; processes keep a part of the capabilities",
		Hints:  []string{"a process of root can change every file of root: run the host as an ordinary user"},
	}
	if len(all) > 0 {
		f.Detail += ", and all of them: " + strings.Join(all, ", ")
	}
	return []finding{f}
}

func failing(findings []finding, check string) bool {
	return slices.ContainsFunc(findings, func(f finding) bool { return f.Check == check && f.Result == "fail" })
}

// collector reports whether the running host can send traces; nil if tracing is off.
func collector(t *status.Tracing) []finding {
	if t == nil {
		return nil
	}
	f := finding{Check: "traces", Result: "ok", Detail: "to " + t.Endpoint}
	if t.Problem != "" {
		f.fail("to "+t.Endpoint+": "+t.Problem, nil)
		f.Hints = []string{t.Next}
	}
	return []finding{f}
}

// inCluster reports whether the running host is connected to its cluster, and the cluster's problems; nil if the host
// is in no cluster.
func inCluster(s status.Status) []finding {
	c := s.Cluster
	if c == nil {
		return nil
	}
	f := finding{Check: "cluster", Result: "ok", Detail: hosts.ClusterSummary(c), Hints: hosts.ClusterProblems(s)}
	if c.Server == "" || c.Reason != "" {
		f.fail(f.Detail, nil)
	}
	return []finding{f}
}

// auditLog reports whether the audit log can be written; nil if there is none.
func auditLog(log config.Audit) []finding {
	if log.Path == "" {
		return nil
	}
	f := finding{Check: "audit log", Result: "ok", Detail: log.Path}
	err := file.CheckBelow(log.Within, log.Path)
	if err == nil {
		err = file.Writable(log.Path)
	}
	if err != nil {
		f.fail(err.Error(), nil)
		f.Hints = []string{"no request passes without it: make room or access, or change audit.path"}
	}
	return []finding{f}
}

// certificate reports whether the server's certificate is valid, and until when; nil without TLS.
func certificate(files config.TLS) []finding {
	if files.Cert == "" {
		return nil
	}
	f := finding{Check: "certificate", Result: "ok", Detail: files.Cert}
	if d := httpserver.CheckTLS(httpserver.TLS(files)); d != nil {
		f.Detail, f.Hints = d.Message, []string{d.Hint}
		if d.Level == protocol.LevelError {
			f.Result = "fail"
		}
	}
	return []finding{f}
}

// fewFiles is a limit of open files that even a host with a few extensions can reach. The host needs four files for
// each process, and one for each connection.
const fewFiles = 512

// openFiles reports how many files the host has open and may have open; nil if the limit is unknown.
func openFiles(s status.Status) []finding {
	h := s.Host
	if h == nil || h.MaxFiles == 0 {
		return nil
	}
	f := finding{Check: "open files", Result: "ok", Detail: fmt.Sprintf("at most %d", h.MaxFiles)}
	if h.OpenFiles > 0 {
		f.Detail = fmt.Sprintf("the running host has %d of at most %d", h.OpenFiles, h.MaxFiles)
	}
	if s.FewFiles() {
		f.fail(f.Detail+", too few are left to start an extension", nil)
	}
	if h.MaxFiles < fewFiles {
		f.Hints = []string{"that is few for a host: raise the hard limit (ulimit -Hn, or LimitNOFILE of systemd)"}
	}
	return []finding{f}
}

// full reports the places of the host that have no room left.
func full(h *status.Host) (findings []finding) {
	if h == nil {
		return nil
	}
	for _, p := range h.Full {
		findings = append(findings,
			finding{
				Check:  "disk",
				Result: "fail",
				Detail: p.String(),
				Hints:  []string{"make room there, or state another place: exthost config show --origin"},
			})
	}
	return findings
}

func examineAll(h *exthost.Host, s status.Status, handshake bool) (findings []finding) {
	if odd := hosts.Warnings(s); odd != nil {
		findings = append(findings,
			finding{Check: "config", Result: "ok", Detail: console.Plural(len(odd), "warning"), Hints: odd})
	}
	for _, d := range hosts.Unlisted(s) {
		if strings.HasPrefix(d.Extension, status.PolicyPrefix) || hosts.OfConfig(d) {
			continue // reported with its policy, or among the warnings above
		}
		f := finding{Check: "manifest", Result: "skip", Detail: console.Nearby(d).String()}
		if d.Level == protocol.LevelError {
			f.Result = "fail"
		}
		findings = append(findings, f)
	}
	for _, x := range s.Extensions {
		f := examine("extension", x, s.Diagnostics, handshake)
		if f.Result == "ok" && !handshake {
			if err := findProgram(h, x); err != nil {
				f.fail(err.Error(), nil)
			}
		}
		findings = append(findings, f)
	}
	for _, d := range s.Destinations {
		f := examine("destination", d.Extension, s.Diagnostics, handshake)
		if f.Result == "ok" && !handshake {
			if err := findCommand(d.Command); err != nil {
				f.fail(err.Error(), nil)
			}
		}
		findings = append(findings, f)
	}
	for _, p := range s.Policies {
		findings = append(findings, examinePolicy(p, handshake))
	}
	return findings
}

// examine checks an extension or a destination; what is the word for which of them.
func examine(what string, x status.Extension, diags []protocol.Diagnostic, handshake bool) finding {
	f := finding{Check: what + " " + x.ID, Result: "ok", Detail: strings.TrimSpace(x.Version + " " + hosts.RunsAs(x))}
	broken, wrong := f.addFaults(what == "destination", x, diags)
	f.Hints = append(f.Hints, unpinned(what == "destination", x)...)
	switch {
	case wrong != "" && !handshake:
		f.fail(wrong, nil)
	case x.State == status.StateNotReady:
		f.fail(x.Reason, nil)
		f.Hints = append(f.Hints, hosts.Readable)
	case x.State == status.StateSkipped && broken:
		f.fail(x.Reason, nil)
	case x.LeftOut() || x.State == status.StateDisabled:
		f.Result, f.Detail = "skip", x.Reason
	case x.State == string(supervisor.Failed): // without handshake, this is the state in the running host
		f.fail(cmp.Or(x.Reason, "failed"), hosts.Evidence(x))
	case handshake && x.State != string(supervisor.Ready) && x.Reason != "":
		f.fail(x.Reason, hosts.Evidence(x))
	case broken && !handshake:
		f.fail(brokenText(x, diags), nil)
	case len(x.Tools) > 0:
		f.Detail += ", " + console.Plural(len(x.Tools), "tool")
	}
	return f
}

// brokenText says what is broken of x, which has a diagnostic of level error, although x is in the host.
func brokenText(x status.Extension, diags []protocol.Diagnostic) string {
	if slices.ContainsFunc(diags, func(d protocol.Diagnostic) bool {
		return hosts.Concerns(d, x) && d.Level == protocol.LevelError && !hosts.AboutTool(d)
	}) {
		return "its manifest on disk is broken, and the one before it stays in force"
	}
	return "a tool that it offers cannot be used"
}

// unpinned returns a hint for a command that runs any version of a package or of an image.
func unpinned(destination bool, x status.Extension) []string {
	if image := launcher.Untagged(x.Command); image != "" {
		return []string{fmt.Sprintf("the image %s has no tag, so another one may run after the next pull; write "+
			"%s:TAG or %[2]s@sha256:DIGEST", image, strings.TrimSuffix(image, ":latest"))}
	}
	run, _ := launcher.Parse(x.Command)
	if run.Unpinned == "" {
		return nil
	}
	remedy := "exthost upgrade " + x.ID + " locks it by its hashes"
	if destination {
		remedy = "write " + strings.TrimSuffix(run.Unpinned, "@latest") + "@VERSION"
	}
	return []string{fmt.Sprintf("%s has no version, so each start may run another one; %s", run.Unpinned, remedy)}
}

// addFaults adds the diagnostics about x as hints. broken reports whether a diagnostic is an error, and not only a
// missing requirement. wrong is the last error of a destination that its reason does not contain; it is not added as a
// hint.
func (f *finding) addFaults(destination bool, x status.Extension, diags []protocol.Diagnostic,
) (broken bool, wrong string) {
	for _, d := range diags {
		if !hosts.Concerns(d, x) || d.Level == protocol.LevelInfo {
			continue
		}
		broken = broken || d.Level == protocol.LevelError
		hint := d.Hint
		if destination && d.Level == protocol.LevelError && !hosts.Said(x, d) {
			wrong = d.Message
		} else if !hosts.Said(x, d) {
			hint = strings.TrimSuffix(d.Message+"; "+d.Hint, "; ")
		}
		if hint != "" {
			f.Hints = append(f.Hints, hint)
		}
	}
	return broken, wrong
}

func examinePolicy(p status.Policy, handshake bool) finding {
	f := finding{
		Check:  "policy " + p.Name,
		Result: "ok",
		Detail: strings.Join([]string{string(p.Category), cmp.Or(p.Builtin, string(p.Kind)), string(p.Mode)}, ", "),
	}
	if !p.Required {
		f.Detail += ", optional"
	}
	for _, d := range p.Diagnostics {
		d.Extension = "" // the finding names the policy
		f.Hints = append(f.Hints, console.Nearby(d).String())
	}
	switch {
	case p.State == status.StateDisabled:
		f.Result, f.Detail = "skip", "disabled"
	// without handshake, this is the state in the running host
	case p.State == string(supervisor.Failed) || p.State == string(supervisor.Restarting):
		var last *protocol.Evidence
		if p.Process != nil {
			last = hosts.Evidence(*p.Process)
		}
		f.fail(cmp.Or(p.Reason, "it is "+p.State), last)
	case p.Process == nil:
	case handshake && p.State != string(supervisor.Ready):
		f.fail(cmp.Or(p.Reason, "it is "+p.State), hosts.Evidence(*p.Process))
	case !handshake:
		if err := findCommand(p.Process.Command); err != nil {
			f.fail(err.Error(), nil)
		}
	}
	return f
}

// findProgram looks for the program of an extension, with its environment and directory, and whether it may be
// executed. Commands of kind exec were checked when the tools were read.
func findProgram(h *exthost.Host, x status.Extension) error {
	if h == nil || x.Transport != manifest.KindStdio || hosts.PID(x) > 0 {
		return nil
	}
	spec, err := h.Admin().Spec(x.ID)
	if err != nil {
		return nil // the extension may not run here, and its own finding says so
	}
	argv, err := spec.CommandLine()
	if err != nil {
		return err
	}
	return process.Check(argv[0])
}

// findCommand looks for a program, or for a script, which need not be executable.
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
