package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/governance/grpcpolicy"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// app is one run of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	flags    struct {
		config     string
		extensions []string
		logLevel   string
		color      string
		output     string
	}
	logFile *os.File // closed by finish
	greets  bool     // serve prints a greeting for a person
	greeted atomic.Bool
	hangup  atomic.Pointer[func()] // what SIGHUP does; nil: it ends the program
}

// The values of flags that take one of a few.
var (
	outputs   = []string{"table", "json", "yaml", "name"}
	colourOn  = []string{"auto", "always", "never"}
	logLevels = []string{"trace", "debug", "info", "warn", "error"}
)

func (a *app) rootCommand() *cobra.Command {
	cmd := a.group("exthost", "Run extensions for LLM agent loops",
		a.serveCommand(), a.listCommand(), a.infoCommand(), a.toolsCommand(), a.callCommand(),
		a.statusCommand(), a.restartCommand(), a.reloadCommand(), a.watchCommand(), a.devCommand(), a.attachCommand(), a.enableCommand(), a.disableCommand(), a.allowCommand(),
		a.logsCommand(), a.tapCommand(), a.policyCommand(), a.approveCommand(), a.denyCommand(), a.auditCommand(), a.hooksCommand(), a.importCommand(), a.initCommand(), a.checkCommand(),
		a.validateCommand(), a.doctorCommand(), a.schemaCommand(), a.configCommand(), a.versionCommand(), a.extensionCommand())
	cmd.Long = "exthost finds extensions in ./extensions, runs them as child processes, keeps them\n" +
		"alive and serves their tools to agent loops over MCP or as a Go library.\n\n" +
		"It exits with 0 when all is well, 1 for a failure, 2 for a wrong usage, 3 for an invalid\n" +
		"configuration or manifest, 4 for what is not found, 5 for a requirement that is missing,\n" +
		"6 for a denial, 7 for an error of the extension or its tool, 8 for a timeout or\n" +
		"cancellation and 9 for checks that failed."
	cmd.Example = "  exthost serve                             serve the tools on http://127.0.0.1:7800/mcp\n" +
		"  exthost doctor --runtime                  start every extension once and say what is wrong\n" +
		"  exthost call ext_notes_add text='buy milk'"
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return a.checkFlags() }
	cmd.SetIn(a.in)
	cmd.SetOut(a.out)
	cmd.SetErr(a.err)
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetHelpCommand(helpCommand())
	f := cmd.PersistentFlags()
	f.StringVar(&a.flags.config, "config", "", "configuration `FILE`, laid over those of this directory")
	f.StringArrayVar(&a.flags.extensions, "extensions", nil, "search `DIR` for extensions instead of the configured paths (repeatable)")
	f.StringVar(&a.flags.logLevel, "log-level", "", "`LEVEL` of the log on stderr: "+strings.Join(logLevels, ", "))
	f.StringVar(&a.flags.color, "color", "auto", "colours: auto, always or never")
	f.StringVarP(&a.flags.output, "output", "o", "table", "`FORM` of the data: table, json, yaml or name")
	completeFlag(cmd, "output", outputs)
	completeFlag(cmd, "color", colourOn)
	completeFlag(cmd, "log-level", logLevels)
	return cmd
}

// checkFlags refuses values that no command has a use for.
func (a *app) checkFlags() error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{{"--output", a.flags.output, outputs}, {"--color", a.flags.color, colourOn}, {"--log-level", a.flags.logLevel, logLevels}} {
		if f.value != "" && !slices.Contains(f.allowed, f.value) {
			return usagef("", "%s %q: there is %s", f.name, f.value, strings.Join(f.allowed, ", "))
		}
	}
	return nil
}

func (a *app) finish() {
	if a.logFile != nil {
		a.logFile.Close()
	}
}

// load reads the configuration, with flags laid over it. Warnings go to stderr;
// errors are one exitError that lists them all.
func (a *app) load(flags ...config.Flag) (*config.Config, *config.Origins, error) {
	if len(a.flags.extensions) > 0 {
		dirs := make([]string, len(a.flags.extensions))
		for i, dir := range a.flags.extensions {
			abs, err := filepath.Abs(dir)
			if err != nil {
				return nil, nil, err
			}
			dirs[i] = abs
		}
		flags = append(flags, config.Flag{Name: "--extensions", Key: "extensions.search_paths", Values: dirs})
	}
	if a.flags.logLevel != "" {
		flags = append(flags, config.Flag{Name: "--log-level", Key: "log.level", Values: []string{a.flags.logLevel}})
	}
	cfg, origins, diags := config.Load(a.loadOptions(flags...))
	if cfg == nil {
		lines := []string{"the configuration is invalid"}
		for _, d := range diags {
			lines = append(lines, fmt.Sprintf("  %s: %s", d.Level, safe(nearby(d).String())))
		}
		return nil, nil, &exitError{code: exitInvalid, text: strings.Join(lines, "\n"), hint: "exthost schema config shows what can be said"}
	}
	for _, d := range diags {
		a.say(d)
	}
	return cfg, origins, nil
}

// loadOptions says where the configuration is.
func (a *app) loadOptions(flags ...config.Flag) config.LoadOptions {
	return config.LoadOptions{File: a.flags.config, Flags: flags, CheckCEL: celpolicy.Check}
}

// policyKinds makes the policies that the library does not link by itself.
var policyKinds = exthost.PolicyKinds{CEL: celpolicy.New, GRPC: grpcpolicy.NewInstance}

// say tells one finding on stderr.
func (a *app) say(d protocol.Diagnostic) {
	c := map[protocol.Level]colour{protocol.LevelInfo: dim, protocol.LevelWarn: yellow, protocol.LevelError: red}[d.Level]
	fmt.Fprintf(a.err, "%s: %s\n", a.paint(c, string(d.Level)), safe(nearby(d).String()))
}

// nearby shortens the path of what is below the working directory, for people.
func nearby(d protocol.Diagnostic) protocol.Diagnostic {
	if d.Path != "" {
		d.Path = nearbyPath(d.Path)
	}
	return d
}

// open opens a host for a command that looks, starting only the extensions that
// start lets through.
func (a *app) open(ctx context.Context, start func(id string) bool) (*exthost.Host, error) {
	cfg, _, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, cfg, exthost.Options{Start: start, Mode: exthost.Mode{Inspect: true}})
}

func (a *app) openWith(ctx context.Context, cfg *config.Config, o exthost.Options) (*exthost.Host, error) {
	log, err := a.quietLogger(cfg.Log)
	if err != nil {
		return nil, err
	}
	o.Logger, o.PolicyKinds = log, policyKinds
	return exthost.Open(ctx, cfg, o)
}

// none starts no extension.
func none(string) bool { return false }

// find returns the status of one extension, or an error that lists what is wrong with
// its manifest or names the id that was meant.
func find(s status.Status, id string) (status.Extension, error) {
	x, err := findWorker(s, id)
	if err == nil && !slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return x.ID == id }) {
		err = &exitError{code: exitNotFound, text: id + " is no extension: it is stated in the configuration, and changed there", hint: "exthost config show --origin says where"}
	}
	return x, err
}

// findWorker is find for what destinations and policies, by the name policy:NAME, have
// as well as extensions.
func findWorker(s status.Status, id string) (status.Extension, error) {
	all := slices.Clone(s.Extensions)
	for _, d := range s.Destinations {
		all = append(all, d.Extension)
	}
	for _, p := range s.Policies {
		all = append(all, policyAsExtension(p))
	}
	ids := make([]string, 0, len(all))
	for _, x := range all {
		if x.ID == id {
			return x, nil
		}
		ids = append(ids, x.ID)
	}
	if err := brokenManifest(s, id); err != nil {
		return status.Extension{}, err
	}
	text := fmt.Sprintf("there is no extension %q", id)
	if near := nearest.Of(id, ids); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return status.Extension{}, &exitError{code: exitNotFound, text: text, hint: "exthost list"}
}

// policyAsExtension is a policy in the words of an extension; one without a process
// has little to say.
func policyAsExtension(p status.Policy) status.Extension {
	if p.Process != nil {
		return *p.Process
	}
	return status.Extension{ID: status.PolicyPrefix + p.Name, State: p.State, Reason: p.Reason, Tools: []string{}}
}

// brokenManifest is every error in the manifest of an extension that is not
// there because of them; nil when there is none.
func brokenManifest(s status.Status, id string) error {
	var lines []string
	for _, d := range s.Diagnostics {
		if d.Extension == id && d.Level == protocol.LevelError {
			lines = append(lines, "  "+safe(nearby(d).String()))
		}
	}
	if lines == nil {
		return nil
	}
	return &exitError{code: exitInvalid, text: "the manifest of extension " + id + " is invalid\n" + strings.Join(lines, "\n"), hint: "exthost validate, once it is mended"}
}
