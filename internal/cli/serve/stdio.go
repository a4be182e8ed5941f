package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/host/stateformat"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/local/relay"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// The values of --background. A relay starts a launcher, which starts the host and ends. The host is then no descendant
// of the client, because a client may kill all of its descendants.
const (
	asLauncher = "launcher"
	asHost     = "host"
)

// run runs the part that the flags select: a launcher, a host or a relay.
func (r *run) run(ctx context.Context) error {
	switch {
	case r.background == asLauncher:
		argv, err := backgroundArgv(asHost)
		if err != nil {
			return err
		}
		return relay.Launch(argv)
	case r.background == asHost:
		err := r.serve(ctx)
		if e, ok := errors.AsType[*console.Error](err); ok {
			relay.Report(&relay.Fault{Text: e.Text, Hint: e.Hint, Code: e.Code})
		} else if err != nil {
			relay.Report(&relay.Fault{Text: err.Error(), Code: console.ExitCode(err)})
		}
		return err
	case r.stdio && !r.own && !process.Contained(): // a contained host ends with the client in any case
		err := r.relay(ctx)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return r.serve(ctx)
}

// backgroundArgv returns the command line of this process for a part of the host in the background.
func backgroundArgv(as string) ([]string, error) {
	program, err := relay.Program()
	if err != nil {
		return nil, err
	}
	argv := append([]string{program}, os.Args[1:]...)
	return append(argv, "--background="+as), nil // the last --background is the one that applies
}

// relay connects the client on stdio to the host of the directory.
func (r *run) relay(ctx context.Context) error {
	process.Trim() // there is one relay for each client, and most memory of its start is garbage
	state, err := exthost.DefaultStateDir()
	if err == nil {
		err = stateformat.Check(state) // a host of a newer version that runs there is left alone
	}
	if err != nil {
		return err
	}
	argv, err := backgroundArgv(asLauncher)
	if err != nil {
		return err
	}
	client := &relay.Client{
		StateDir: state,
		Flags:    r.relayFlags(),
		As:       r.as,
		Toolset:  r.toolset,
		ToolMode: r.toolMode,
		Strict:   r.strict,
		Environ:  os.Environ(),
		Start: func(ctx context.Context, turn *os.File) error {
			return relay.Start(ctx, argv, turn, daemon.LogFile(state))
		},
		Warn: func(text string) { r.console.Warn("%s", console.Safe(text)) },
	}
	err = relay.Run(ctx, relay.Options{
		In:      r.console.In.(*os.File),
		Out:     r.console.Out.(*os.File),
		Connect: client.Connect,
		Pipes:   true,
	})
	if f, ok := errors.AsType[*relay.Fault](err); ok {
		return &console.Error{Code: f.Code, Text: f.Text, Hint: f.Hint}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// relayFlags returns the flags that select a host.
func (r *run) relayFlags() relay.Flags {
	f := relay.Flags{Watch: r.watch, Trust: r.console.Trust, NoProject: r.console.NoProject}
	if r.console.Config != "" {
		f.Config = absolute(r.console.Config)
	}
	for _, dir := range r.console.Extensions {
		f.Extensions = append(f.Extensions, absolute(dir))
	}
	return f
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path // without a working directory, no relative path works anyway
}

// logToFile redirects the log of a host in the background to a file.
func (r *run) logToFile(d *daemon.Daemon) error {
	log, err := relay.OpenLog(d.LogFile())
	if err != nil {
		return err
	}
	r.console.Err = log
	return d.SetLog(d.LogFile())
}

// serveClients serves f, and the clients that connect through relays.
func (r *run) serveClients(ctx context.Context, cfg *config.Config, d *daemon.Daemon, h *exthost.Host, f front) error {
	if d == nil || r.own {
		return r.serveHost(ctx, h, f)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listener, err := d.ListenClients(r.log)
	if err != nil {
		return err
	}
	clients, err := r.relayed(cfg, h, stop)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	r.clients.Store(clients)
	if r.background == asHost {
		relay.Report(nil)
		return r.serveHost(ctx, h, front{serve: func(ctx context.Context, _ *exthost.Host) error {
			clients.Run(ctx, listener)
			return nil
		}})
	}
	ended := make(chan struct{})
	go func() { clients.Run(ctx, listener); close(ended) }()
	err = r.serveHost(ctx, h, f)
	stop()
	<-ended
	return err
}

// relayed returns the host's side of relays.
func (r *run) relayed(cfg *config.Config, h *exthost.Host, stop func()) (*relay.Host, error) {
	build, err := relay.Build()
	if err != nil {
		return nil, err
	}
	server := mcpserver.New(h, mcpserver.Options{
		Version:      exthost.Version(),
		Logger:       r.log,
		DrainTimeout: stdioDrain,
		MaxBody:      relay.MaxLine,
	})
	return relay.NewHost(relay.HostOptions{
		Build:      build,
		Version:    exthost.Version(),
		Flags:      r.relayFlags(),
		Environ:    os.Environ(),
		Log:        r.log,
		Variables:  func() []string { return h.Variables() },
		Stop:       stop,
		Background: r.background == asHost,
		IdleExit:   time.Duration(cfg.Server.IdleExit),
		Toolset: func(name, asked string) (string, *relay.Fault) {
			toolset, refused := toolsetOf(h, cfg.Server, name, asked)
			if refused != nil {
				return "", &relay.Fault{Text: refused.Text, Hint: refused.Hint, Code: refused.Code}
			}
			return toolset, nil
		},
		Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller, toolset, mode string) {
			ctx = mcpserver.WithToolMode(mcpserver.WithToolset(mcpserver.WithCaller(ctx, caller), toolset), mode)
			if err := server.ServeStdio(ctx, in, out); err != nil && ctx.Err() == nil {
				r.log.Debug("a client on stdio has gone", "client", caller, "error", err)
			}
		},
		Named: func(name string) (context.Context, *relay.Fault) {
			until, err := named(h, name)
			if err != nil {
				return nil, &relay.Fault{Text: err.Text, Hint: err.Hint, Code: err.Code}
			}
			return until, nil
		},
		Strict: func(ctx context.Context) *relay.Fault {
			if h.Ready(ctx) != nil {
				return nil
			}
			if e, ok := errors.AsType[*console.Error](strictness(h.Status())); ok {
				return &relay.Fault{Text: e.Text, Hint: e.Hint, Code: e.Code}
			}
			return nil
		},
	}), nil
}

// toolsetOf returns the toolset for a client on stdio; "" is none. name is the client's name and asked its --toolset;
// both may be "". A named client with a configured toolset cannot have another.
func toolsetOf(h *exthost.Host, cfg config.Server, name, asked string) (toolset string, refused *console.Error) {
	own := h.Clients().Toolset(name)
	if own != "" && asked != "" && own != asked {
		return "", &console.Error{
			Code: console.ExitUsage,
			Text: "--toolset: the client " + name + " has the toolset " + own + ", and gets no other",
			Hint: "leave --toolset out",
		}
	}
	toolset = cmp.Or(own, asked, cfg.Toolset)
	if _, err := h.Toolsets().Tools(toolset); err != nil {
		return "", &console.Error{Code: console.ExitUsage, Text: protocol.Reason(err), Hint: "exthost config show"}
	}
	return toolset, nil
}

// named returns a context that ends when the client called name is removed. If the name is unknown, it reloads the
// clients first, because the client may just have been added.
func named(h *exthost.Host, name string) (until context.Context, unknown *console.Error) {
	until, ok := h.Clients().ByName(name)
	if !ok && h.Clients().Reload() == nil {
		until, ok = h.Clients().ByName(name)
	}
	if !ok {
		return nil, cmp.Or(hosts.CheckClient(name, h.Clients().Stated()),
			hosts.UnknownClient(name, h.Clients().Names()))
	}
	return until, nil
}

// recheck disconnects clients whose environment no longer fits the host after a reload.
func (r *run) recheck() {
	if clients := r.clients.Load(); clients != nil {
		clients.Recheck()
	}
}
