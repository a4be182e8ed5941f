// Package serve implements exthost serve, which runs a host and serves its tools to MCP clients, and its API to its
// operator.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/services"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/local/relay"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Command returns exthost serve. It passes the action for SIGHUP to onHangup when a host runs.
func Command(c *console.Console, onHangup func(act func())) *cobra.Command {
	var dir, listen, watch, join, node string
	r := run{console: c, onHangup: onHangup}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the extensions and serve their tools over MCP",
		Long: "Run the extensions and serve their tools over MCP: over HTTP at /mcp (and /sse for old\n" +
			"clients), or with --stdio on stdin and stdout. Ctrl-C stops everything.\n\n" +
			"All clients on stdio of a directory share one host, which runs in the background and ends\n" +
			"server.idle_exit after the last client; --own gives a client a host of its own. An exthost\n" +
			"serve of the directory takes the clients on stdio as well. Clients with other --config,\n" +
			"--extensions or values of the variables that extensions declare do not share a host.",
		Example: "  exthost serve --watch\n  exthost serve --listen 127.0.0.1:0\n  exthost connect claude",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case r.stdio && listen != "":
				return console.Usagef("exthost serve --help",
					"--stdio and --listen exclude each other: one client on stdin, or HTTP")
			case r.own && !r.stdio:
				return console.Usagef("exthost serve --help", "--own is for --stdio")
			case r.toolset != "" && !r.stdio:
				return console.Usagef("exthost serve --help",
					"--toolset is for --stdio; server.toolset and /t/NAME/mcp are for clients over HTTP")
			case r.toolMode != "" && !r.stdio:
				return console.Usagef("exthost serve --help",
					"--tools is for --stdio; tools.mode and server.clients.NAME.mode are for clients over HTTP")
			case cmd.Flags().Changed("as") && !r.stdio:
				return console.Usagef("exthost client add NAME gives a client over HTTP a token", "--as is for --stdio")
			case cmd.Flags().Changed("as"):
				if err := clienttoken.CheckName(r.as); err != nil {
					return console.Usagef("exthost client list", "--as: %v", err)
				}
			}
			if r.toolMode != "" {
				if err := console.OneOf("exthost serve --stdio --tools search", "--tools", r.toolMode,
					toolModes); err != nil {
					return err
				}
			}
			if dir != "" {
				if err := enter(dir); err != nil {
					return err
				}
			}
			if listen != "" {
				r.flags = append(r.flags, config.Flag{Name: "--listen", Key: "server.listen", Values: []string{listen}})
			}
			if join != "" {
				r.flags = append(r.flags, config.Flag{Name: "--cluster", Key: "cluster.join", Values: []string{join}})
			}
			if node != "" {
				r.flags = append(r.flags, config.Flag{Name: "--node", Key: "cluster.node", Values: []string{node}})
			}
			if cmd.Flags().Changed("watch") {
				r.flags = append(r.flags,
					config.Flag{Name: "--watch", Key: "extensions.watch.enabled", Values: []string{"true"}},
					config.Flag{Name: "--watch", Key: "extensions.watch.mode", Values: []string{watch}})
				r.watch = watch
			}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "",
		"serve the directory `DIR`, an absolute path, instead of the one this starts in")
	cmd.Flags().StringVar(&listen, "listen", "",
		"serve HTTP on `ADDR`, port 0 is any free one (default 127.0.0.1:7800)")
	cmd.Flags().BoolVar(&r.stdio, "stdio", false, "serve one MCP client on stdin and stdout instead of HTTP")
	cmd.Flags().BoolVar(&r.own, "own", false,
		"with --stdio: run a host for this client alone, which ends with the client")
	cmd.Flags().StringVar(&r.toolset, "toolset", "",
		"with --stdio: show the client the toolset `NAME` of the configuration alone (default: server.toolset)")
	cmd.Flags().StringVar(&r.toolMode, "tools", "",
		"with --stdio: list tools to the client by `MODE`: all, search or auto (default: tools.mode)")
	console.CompleteFlag(cmd, "tools", toolModes)
	cmd.Flags().StringVar(&r.as, "as", "",
		"with --stdio: be the client `NAME` of exthost client add, for policies, budgets and the audit log")
	cmd.Flags().StringVar(&r.background, "background", "", "be a part of the host in the background")
	_ = cmd.Flags().MarkHidden("background")
	cmd.Flags().StringVar(&join, "cluster", "", "join the cluster of `FILE`, which exthost cluster invite wrote")
	cmd.Flags().StringVar(&node, "node", "",
		"be the node `NAME` of the cluster (default: that of the file, else the host name)")
	cmd.Flags().StringVar(&watch, "watch", "",
		"look for changes on disk: `MODE` reload applies them, log says so (without a mode: reload)")
	cmd.Flags().Lookup("watch").NoOptDefVal = config.WatchReload
	console.CompleteFlag(cmd, "watch", []string{config.WatchReload, config.WatchLog})
	cmd.Flags().BoolVar(&r.strict, "strict", false,
		"exit with 3 when any manifest is broken, any extension does not start, or what is required cannot run")
	return cmd
}

// toolModes are the values of --tools.
var toolModes = []string{toolsearch.ModeAll, toolsearch.ModeSearch, toolsearch.ModeAuto}

// enter makes dir the working directory. dir must be absolute: clients start servers in arbitrary directories, and the
// background processes of the host get the same arguments in dir itself.
func enter(dir string) error {
	if !filepath.IsAbs(dir) {
		return console.Usagef("exthost serve --dir "+absolute(dir), "--dir %s: an absolute path is needed", dir)
	}
	if err := os.Chdir(dir); err != nil {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: "the directory to serve: " + err.Error(),
			Hint: "exthost connect --list shows the directories that clients serve",
		}
	}
	return os.Setenv("PWD", dir)
}

// run is one run of exthost serve.
type run struct {
	console            *console.Console
	stdio, strict, own bool
	toolset            string        // --toolset
	toolMode           string        // --tools
	as                 string        // --as, the named client on stdio; "": none
	background         string        // asLauncher or asHost; "": neither
	watch              string        // --watch
	flags              []config.Flag // flags that override the configuration
	onHangup           func(act func())

	log     *slog.Logger
	node    *cluster.Node              // nil: the host is in no cluster
	daemon  *daemon.Daemon             // nil: the operator's commands do not reach this host
	clients atomic.Pointer[relay.Host] // nil: no relay can connect
	began   time.Time

	notifier notifier
	level    slog.Level    // of the log
	shown    slog.LevelVar // of the log on stderr: Silent until the operator is greeted
}

// front is one way to serve a host.
type front struct {
	serve func(ctx context.Context, h *exthost.Host) error // until ctx ends
	// reads again the files that only the front reads; nil: there are none
	reload func() error
	url    string // "" on stdio
	// environment variable with the token that clients need; "": none
	token   string
	clients []string // names of the clients at the start, sorted
	exposed bool     // other machines can connect
	anyone  bool     // every user of this machine can connect

	operator operatorToken // zero on stdio
}

// serve runs a host until ctx ends or its client leaves.
func (r *run) serve(ctx context.Context) error {
	r.notifier = takeNotifier()
	cfg, o, err := r.load(ctx)
	if err != nil {
		return err
	}
	d, err := r.begin(cfg)
	if r.daemon = d; d != nil {
		defer d.Close() // after an error below
	}
	if err != nil {
		return err
	}
	f := r.stdioFront(cfg.Server)
	if !r.stdio {
		if f, err = r.httpFront(cfg.Server, cfg.Governance.Headers); err != nil {
			return err
		}
		defer f.operator.forget()
	}
	r.began = time.Now()
	tracer, flush := r.tracer(ctx, cfg)
	defer flush()
	endHub, err := r.cluster(ctx, cfg)
	if err != nil {
		return err
	}
	o.Logger, o.Tracer, o.Cluster = r.log, tracer, r.member()
	o.OnReload = func(exthost.Reloaded) { r.recheck(); f.rereadTLS(r.log) }
	host, err := exthost.Open(ctx, cfg, o)
	if err != nil {
		return errors.Join(err, endHub())
	}
	if named, ok := hosts.ClientsNow(r.console, r.flags...); ok && d != nil {
		// The clients may have changed since the configuration was read, for example while the user was asked for
		// trust. The command that changed them could not find this host yet.
		host.Clients().Set(named)
	}
	endControl := r.control(f, host)
	r.onHangup(func() { _, _ = host.Admin().Reload(ctx) }) // which the host logs
	if r.strict && r.background == "" && host.Ready(ctx) == nil {
		err = strictness(host.Status()) // serve only without an error
	}
	if err == nil {
		err = r.serveClients(ctx, cfg, d, host, f)
	}
	return errors.Join(err, host.Close(), endHub(), endControl())
}

// load reads the configuration, asks which code of the directory may run, and returns the host's options that depend on
// nothing else.
func (r *run) load(ctx context.Context) (cfg *config.Config, o exthost.Options, err error) {
	cfg, origins, err := hosts.Load(r.console, r.flags...)
	if err != nil {
		return nil, o, err
	}
	if err := trust.BeforeServe(ctx, r.console, cfg, origins, !r.stdio && r.background == ""); err != nil {
		return nil, o, err
	}
	k, err := hosts.Trusted(cfg)
	if err != nil {
		return nil, o, err
	}
	locked, err := hosts.Packages(cfg)
	if err != nil {
		return nil, o, err
	}
	return cfg, exthost.Options{
		Services:    services.New(cfg.Cluster),
		Consent:     k,
		Packages:    locked,
		PolicyKinds: hosts.PolicyKinds,
		Secrets:     hosts.Secrets,
		Logins:      hosts.Logins(r.console),
		Reread:      r.reread,
		Disable:     r.disabler(),
		Mode:        exthost.Mode{Background: true},
	}, r.mayBe(ctx, cfg)
}

// mayBe returns an error if the client of this host cannot be the client named by --as.
func (r *run) mayBe(ctx context.Context, cfg *config.Config) error {
	if r.as == "" || r.background != "" { // the host in the background checks each client
		return nil
	}
	if process.Contained() {
		return &console.Error{
			Code: console.ExitDenied,
			Text: "--as is for clients, and this process was started by an extension, hook or policy of a host",
		}
	}
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return err
	}
	if f := relay.Stranger(ctx, state); f != nil {
		return &console.Error{Code: f.Code, Text: f.Text}
	}
	if wrong := hosts.CheckClient(r.as, cfg.Server.Clients); wrong != nil {
		return wrong
	}
	return nil
}

// begin opens the log and claims the directory. d may be set even if there is an error.
func (r *run) begin(cfg *config.Config) (d *daemon.Daemon, err error) {
	if r.background == asHost {
		if d, err = r.claim(cfg); err == nil {
			err = r.logToFile(d)
		}
	}
	if err == nil {
		err = r.openLog(cfg)
	}
	if err == nil && r.background == "" {
		d, err = r.claim(cfg)
	}
	if err == nil && d != nil {
		r.endBefore(d.Before())
		process.NoteEnd(d.LockFile())
	}
	return d, err
}

// leftLimit is how long to wait for the end of processes that a killed host has left.
const leftLimit = 2 * time.Second

// endBefore ends processes that a previous host has left because its guardian was killed too or has not ended them yet.
func (r *run) endBefore(before daemon.Info) {
	found, survived := sweep.End(before.Marks, leftLimit)
	for _, f := range found {
		if !f.Runs() {
			r.log.Warn("a process of the host before was ended", "pid", f.PID, "program", f.Name, "host", before.PID)
		}
	}
	for _, f := range survived {
		r.log.Error("a process of the host before survived SIGKILL; it gets no access to this host", "pid", f.PID,
			"program", f.Name, "host", before.PID)
	}
}

// openLog opens the log on stderr and, if configured, in a file.
func (r *run) openLog(cfg *config.Config) (err error) {
	r.level = console.Level(cfg.Log.Level)
	if r.shown.Set(r.level); r.greets() {
		r.shown.Set(console.Silent) // the greeting reports the start
	}
	r.log, err = r.console.Logger(cfg.Log, &r.shown)
	return err
}

// serveHost serves until ctx or the front ends. The end of ctx is no error.
func (r *run) serveHost(ctx context.Context, h *exthost.Host, f front) error {
	serving, stop := context.WithCancel(ctx)
	var welcome sync.WaitGroup
	welcome.Go(func() { r.welcome(serving, h, f) })
	welcome.Go(func() { r.notifier.keepAlive(serving, h, r.log) })
	// the socket accepts connections now; extensions may still be starting
	r.notifier.tell("READY=1", r.log)
	err := f.serve(serving, h)
	if ctx.Err() != nil {
		r.notifier.tell("STOPPING=1", r.log)
		r.log.Info("stopping", "reason", context.Cause(ctx).Error())
	}
	stop()
	welcome.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// reread reads the configuration again, with the flags of the start.
func (r *run) reread() (*config.Config, error) {
	cfg, _, err := hosts.LoadTrusted(r.console, r.flags...)
	if e, ok := errors.AsType[*console.Error](err); ok && e.Code == console.ExitDenied {
		next, _, _ := strings.Cut(e.Hint, ",") // the command alone, see [hosts.Trusted]
		return nil, &protocol.Error{Kind: protocol.Untrusted, Message: e.Text, Next: next}
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "%w", err)
	}
	return cfg, nil
}

// disabler returns a function that writes the extensions that the operator disables to the configuration. It returns
// nil with --extensions, which replaces that part of the configuration.
func (r *run) disabler() func(id string, disabled bool) error {
	if len(r.console.Extensions) > 0 {
		return nil
	}
	return func(id string, disabled bool) error {
		_, err := hosts.SetListed(r.console, "disabled", id, disabled)
		return err
	}
}

// strictness returns the error that ends serve --strict; nil if there is none.
func strictness(s status.Status) error {
	lines := []string{"--strict, and not everything is in order"}
	for _, d := range s.Diagnostics {
		if d.Level != protocol.LevelError {
			continue
		}
		lines = append(lines, "  "+console.Nearby(d).String())
		for _, x := range s.Extensions {
			if !hosts.Concerns(d, x) {
				continue
			}
			for _, line := range console.LastWords(hosts.Evidence(x)) {
				lines = append(lines, "  "+line)
			}
		}
	}
	for _, o := range s.Obstacles() {
		if !slices.ContainsFunc(s.Diagnostics,
			func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError && d.Extension == o.ID }) {
			lines = append(lines, "  "+console.Safe(o.Text))
		}
	}
	if len(lines) == 1 {
		return nil
	}
	return &console.Error{Code: console.ExitInvalid, Text: strings.Join(lines, "\n"), Hint: "exthost check --start"}
}

// stdioDrain is how long calls in flight may take after the client closes stdin. The extensions get further time to
// end.
const stdioDrain = 3 * time.Second

// stdioFront returns the front for one client on stdin and stdout.
func (r *run) stdioFront(cfg config.Server) front {
	return front{serve: func(ctx context.Context, h *exthost.Host) error {
		toolset, refused := toolsetOf(h, cfg, r.as, r.toolset)
		if refused != nil {
			return refused
		}
		ctx = mcpserver.WithToolMode(mcpserver.WithToolset(ctx, toolset), r.toolMode)
		server := mcpserver.New(h,
			mcpserver.Options{Version: exthost.Version(), Logger: r.log, DrainTimeout: stdioDrain})
		if r.as != "" {
			until, unknown := named(h, r.as)
			if unknown != nil {
				return unknown
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(mcpserver.WithCaller(ctx, r.as))
			defer cancel()
			defer context.AfterFunc(until, cancel)()
		}
		// files, because their reads can be interrupted
		return server.ServeStdio(ctx, r.console.In.(*os.File), r.console.Out.(*os.File))
	}}
}

// greetPatience is how long the greeting waits for extensions that start slowly, for instance because they are
// downloaded first.
const greetPatience = 3 * time.Second

// welcome tells the operator which extensions run: when all have started, or after greetPatience. Later starts are
// logged.
func (r *run) welcome(ctx context.Context, h *exthost.Host, f front) {
	patient, cancel := context.WithTimeout(ctx, greetPatience)
	defer cancel()
	stop := r.console.Progress(func() string { return hosts.Starting(h.Status()) })
	late := h.Ready(patient) != nil
	stop()
	if late && ctx.Err() != nil {
		return // stopped before that
	}
	s, took := h.Status(), time.Since(r.began)
	r.log.Debug("extensions are held", "by", s.Containment.Holds, "not_by", s.Containment.Lacks)
	if r.daemon != nil && slices.Contains(s.Containment.Holds, process.HoldsGuardian) {
		if err := r.daemon.SetGuarded(); err != nil {
			r.log.Warn("the next host will not know whether a guardian ends these processes", "error", err)
		}
	}
	if r.greets() {
		greet(r.console, h, f, took)
	} else {
		r.logGreeting(h, f, took)
	}
	r.shown.Set(r.level)
	r.tellBefore()
	if h.Ready(ctx) != nil {
		return
	}
	process.Trim() // frees memory that only the start needed
	if late {
		r.log.Info("all extensions have started or failed", "after",
			time.Since(r.began).Round(time.Millisecond).String(), "tools", len(h.Tools().Entries()))
	}
	if late && r.greets() {
		judge(r.console, h) // that of the greeting is old, and may have been scrolled away
	}
	process.TrimAfterWork(ctx)
}

// tellBefore logs that the previous host was killed.
func (r *run) tellBefore() {
	if r.daemon == nil || r.daemon.Before().PID == 0 {
		return
	}
	before := r.daemon.Before()
	text := fmt.Sprintf("the host before (pid %d", before.PID)
	if !before.Began.IsZero() { // not recorded by older versions
		text += ", started " + before.Began.Local().Format(time.RFC3339)
	}
	text += ") did not end by itself"
	if before.Guarded {
		text += "; its guardian ends its processes"
	}
	r.log.Warn(text)
}

// greets reports whether a person reads stderr.
func (r *run) greets() bool { return console.IsTerminal(r.console.Err) }

// logGreeting logs what [greet] shows.
func (r *run) logGreeting(h *exthost.Host, f front, took time.Duration) {
	s, entries, count, log := h.Status(), h.Tools().Entries(), map[string]int{}, r.log
	for _, x := range s.Extensions {
		count[x.State]++
	}
	for _, o := range s.Obstacles() {
		if o.Blocked {
			log.Error("not ready: "+o.Text, "next", o.Next)
		}
	}
	url := overStdio
	if f.url != "" {
		url = f.url + "/mcp"
		log = log.With("dashboard", f.url+"/ui/", "token_file", f.operator.file)
	}
	log.Info("serving", "at", url, "version", s.Version, "extensions", len(s.Extensions), "skipped",
		count[status.StateSkipped],
		"failed", count[string(supervisor.Failed)], "starting", count[string(supervisor.Spawning)], "tools",
		len(entries), "tokens", hosts.Tokens(entries),
		"after", took.Round(time.Millisecond).String())
}
