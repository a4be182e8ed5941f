package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func (a *app) serveCommand() *cobra.Command {
	var listen, watch string
	var stdio, strict bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the extensions and serve their tools over MCP",
		Long: "Run the extensions and serve their tools over MCP: over HTTP at /mcp (and /sse for old\n" +
			"clients), or with --stdio on stdin and stdout. Ctrl-C stops everything.",
		Example: "  exthost serve --watch\n  exthost serve --listen 127.0.0.1:0\n  claude mcp add exthost -- exthost serve --stdio",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if stdio && listen != "" {
				return usagef("exthost serve --help", "--stdio and --listen exclude each other: one client on stdin, or HTTP")
			}
			var flags []config.Flag
			if listen != "" {
				flags = append(flags, config.Flag{Name: "--listen", Key: "server.listen", Values: []string{listen}})
			}
			if cmd.Flags().Changed("watch") {
				flags = append(flags, config.Flag{Name: "--watch", Key: "extensions.watch.enabled", Values: []string{"true"}},
					config.Flag{Name: "--watch", Key: "extensions.watch.mode", Values: []string{watch}})
			}
			return a.serve(cmd.Context(), stdio, strict, flags)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "serve HTTP on `ADDR`, port 0 is any free one (default 127.0.0.1:7800)")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve one MCP client on stdin and stdout instead of HTTP")
	cmd.Flags().StringVar(&watch, "watch", "", "look for changes on disk: `MODE` reload applies them, log says so (without a mode: reload)")
	cmd.Flags().Lookup("watch").NoOptDefVal = config.WatchReload
	completeFlag(cmd, "watch", []string{config.WatchReload, config.WatchLog})
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 3 when any manifest is broken or any extension does not start")
	return cmd
}

// front is one way to serve a host.
type front struct {
	serve   func(ctx context.Context, h *exthost.Host) error // until ctx ends
	reload  func() error                                     // reads again what is no part of the host's; nil: there is nothing
	url     string                                           // "" on stdio
	token   string                                           // the variable that clients from elsewhere have the token in; "" when they need none
	exposed bool                                             // other machines can connect

	operator operatorToken // zero on stdio
}

func (a *app) serve(ctx context.Context, stdio, strict bool, flags []config.Flag) error {
	cfg, _, err := a.load(flags...)
	if err != nil {
		return err
	}
	a.greets = isTerminal(a.err)
	log, err := a.logger(cfg.Log)
	if err != nil {
		return err
	}
	d, err := a.claim(cfg, stdio, log)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close() // where nothing else does
	}
	f := a.stdioFront(log)
	if !stdio {
		if f, err = httpFront(cfg.Server, log); err != nil {
			return err
		}
		defer f.operator.forget()
	}
	began := time.Now()
	host, err := exthost.Open(ctx, cfg, exthost.Options{Logger: log, PolicyKinds: policyKinds, Reread: a.reread(flags), Disable: a.disabler(), Mode: exthost.Mode{Background: true}})
	if err != nil {
		return err
	}
	endControl := control(d, f, host, log)
	a.onHangup(func() { reloadOnHangup(ctx, host, f, log) })
	if strict && host.Ready(ctx) == nil {
		err = strictness(host.Status()) // nothing is served that does not pass
	}
	if err == nil {
		err = a.serveWelcoming(ctx, host, f, began, log)
	}
	return errors.Join(err, host.Close(), endControl())
}

// serveWelcoming serves until ctx ends, which is no error, or the front does.
func (a *app) serveWelcoming(ctx context.Context, h *exthost.Host, f front, began time.Time, log *slog.Logger) error {
	serving, stop := context.WithCancel(ctx)
	var welcome sync.WaitGroup
	welcome.Go(func() { a.welcome(serving, h, f, began, log) })
	err := f.serve(serving, h)
	stop()
	welcome.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// stdioDrain is what calls get whose client has closed stdin; closing the
// extensions takes its own time after it.
const stdioDrain = 3 * time.Second

// greetPatience is how long the greeting waits for extensions that start slowly,
// such as those that are downloaded first.
const greetPatience = 3 * time.Second

// welcome tells the operator what runs once that is known, or as much of it as is
// known by then and the rest in the log.
func (a *app) welcome(ctx context.Context, h *exthost.Host, f front, began time.Time, log *slog.Logger) {
	patient, cancel := context.WithTimeout(ctx, greetPatience)
	defer cancel()
	late := h.Ready(patient) != nil
	if late && ctx.Err() != nil {
		return // stopped before that
	}
	a.greet(h, f, time.Since(began), log)
	if late && h.Ready(ctx) == nil {
		log.Info("all extensions have started or failed", "after", time.Since(began).Round(time.Millisecond).String(), "tools", len(h.Tools().Entries()))
	}
}

// strictness is the error that ends serve --strict.
func strictness(s status.Status) error {
	lines := []string{"--strict, and not everything is in order"}
	for _, d := range s.Diagnostics {
		if d.Level != protocol.LevelError {
			continue
		}
		lines = append(lines, "  "+nearby(d).String())
		for _, x := range s.Extensions {
			if concerns(d, x) {
				lines = append(lines, indent(lastWords(evidence(x)))...)
			}
		}
	}
	if len(lines) == 1 {
		return nil
	}
	return &exitError{code: exitInvalid, text: strings.Join(lines, "\n"), hint: "exthost doctor --runtime"}
}

// evidence is what the latest failure of an extension left behind; nil when
// there is none.
func evidence(x status.Extension) *protocol.Evidence {
	for _, i := range x.Instances {
		if i.Evidence != nil {
			return i.Evidence
		}
	}
	return nil
}

func indent(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + line
	}
	return out
}

func (a *app) stdioFront(log *slog.Logger) front {
	return front{serve: func(ctx context.Context, h *exthost.Host) error {
		server := mcpserver.New(h, mcpserver.Options{Version: exthost.Version(), Logger: log, DrainTimeout: stdioDrain})
		return server.ServeStdio(ctx, readCloser(a.in), writeCloser(a.out))
	}}
}

// readCloser keeps a file the file that it is, so that reading it can be
// interrupted.
func readCloser(r io.Reader) io.ReadCloser {
	if f, ok := r.(*os.File); ok {
		return f
	}
	return io.NopCloser(r)
}

func writeCloser(w io.Writer) io.WriteCloser {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return nopCloser{w}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
