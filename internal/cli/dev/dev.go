// Package dev implements exthost dev, which runs an extension and swaps it at every save, and exthost dev attach, which
// runs it under a debugger.
package dev

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster/services"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/manifest"
)

// Dev returns exthost dev, which runs one extension while its author works on it.
func Dev(c *console.Console) *cobra.Command {
	s := session{console: c}
	cmd := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Run an extension, swap it at every save, call its tools",
		Long: "Run the extension in DIR (default: this directory, once its extensions are trusted) alone,\n" +
			"without policies and hooks. When you save its manifest, its command file or a file that\n" +
			"[dev] watch names, the new build replaces the running one, after [dev] build if there is\n" +
			"one; if the new build is broken, the running one stays and the error is shown. The stderr\n" +
			"of the extension and changes of its tools are shown too. At the prompt, NAME key=value…\n" +
			"calls a tool as exthost call does; tab completes, help helps. Without a terminal, calls are\n" +
			"read from stdin line by line, until a pipe or file ends. With --attach the extension is not\n" +
			"started: run the command that is shown in another terminal, under a debugger if you like.",
		Example: "  exthost dev extensions/weather\n  echo 'greet name=Ada' | exthost dev extensions/weather",
		Args:    console.AtMostOne("the directory of an extension"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.dir, err = hosts.Directory(cmd.Context(), c, args); err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&s.attach, "attach", false,
		"do not start the extension, wait for one that is run elsewhere by exthost dev attach")
	cmd.AddCommand(attachCommand(c))
	return cmd
}

// session is one run of exthost dev.
type session struct {
	console *console.Console
	dir     string
	attach  bool // exthost dev attach runs the extension
	builder builder
}

func (s *session) run(ctx context.Context) (err error) {
	c := s.console
	if info, err := os.Stat(s.dir); err != nil || !info.IsDir() {
		hint, below := "exthost init NAME --lang LANG makes one", filepath.Join("extensions", s.dir)
		if _, err := os.Stat(below); err == nil && filepath.IsLocal(s.dir) {
			hint = "exthost dev " + below
		}
		return &console.Error{
			Code: console.ExitNotFound,
			Text: s.dir + " is not the directory of an extension",
			Hint: hint,
		}
	}
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.builder.dir = abs
	p := newPrompt(c.In, &screen{out: c.Out, terminal: c.Out, colours: c.ColoursOn(c.Out)}, s.dir)
	o := exthost.Options{
		Logger:   slog.New(slog.DiscardHandler),
		StateDir: filepath.Join(state, ".dev"),
		Reread:   func() (*config.Config, error) { return s.rebuilt(ctx) },
		Mode:     exthost.Mode{StartLazy: true, Background: true, Built: s.builder.current},
	}
	if s.attach {
		sockets, err := os.MkdirTemp("", "exthost-attach-") // mode 0700
		if err != nil {
			return err
		}
		defer os.RemoveAll(sockets)
		o.Mode.Command = func(id string, argv []string) []string { // a relay in place of each extension
			socket := filepath.Join(sockets, id+".sock")
			return append([]string{"exthost", "dev", "attach", "--relay", socket, "--"}, argv...)
		}
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	packages, err := hosts.Packages(cfg)
	if err != nil {
		return err
	}
	packages.Editing, o.Packages, o.Secrets = true, packages, hosts.Secrets
	o.Logins, o.Services = hosts.Logins(c), services.New(cfg.Cluster)
	if o.Consent, err = hosts.Grants(cfg); err != nil {
		return err
	}
	// no question: the author has run everything in it
	defer func() { err = errors.Join(err, hosts.TrustFolder(context.WithoutCancel(ctx), c, abs)) }()
	if err := s.builder.build(ctx); err != nil {
		p.builds.print("%s%s", p.builds.paint(console.Red, "✗ "), console.SafeText(console.NearbyText(message(err))))
	}
	leave, err := p.enterTerminal()
	if err != nil {
		return err
	}
	defer leave()
	return s.host(ctx, cfg, o, p)
}

// host runs the host until the author ends the session.
func (s *session) host(ctx context.Context, cfg *config.Config, o exthost.Options, p *prompt) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	began := time.Now()
	opened := make(chan struct{})
	o.OnReload = func(r exthost.Reloaded) { // a save may be reloaded before Open has returned the host
		select {
		case <-opened:
			p.builds.reloaded(r)
		case <-ctx.Done():
		}
	}
	h, err := exthost.Open(ctx, cfg, o)
	if err != nil {
		return err
	}
	p.host, p.builds.host = h, h
	close(opened)
	p.tasks.Go(func() { p.screen.showLog(ctx, h, s.attach) })
	switch {
	case s.attach:
		p.tasks.Go(func() { p.builds.awaitAttached(ctx) })
	case p.terminal != nil:
		p.tasks.Go(func() { p.builds.welcome(ctx, began) })
	default:
		p.builds.welcome(ctx, began) // before the first call
	}
	p.run(ctx)
	end()
	err = h.Close()
	p.tasks.Wait()
	return err
}

// debounce is how long to wait after a save; short, because the author waits.
const debounce = manifest.Duration(10 * time.Millisecond)

// rebuilt builds the extension and reads the configuration, for a reload.
func (s *session) rebuilt(ctx context.Context) (*config.Config, error) {
	if err := s.builder.build(ctx); err != nil {
		return nil, err
	}
	return s.config()
}

// config reads the configuration and reduces it to the extension in dir.
func (s *session) config() (*config.Config, error) {
	cfg, _, err := hosts.LoadTrusted(s.console)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, err
	}
	e := &cfg.Extensions
	e.Enabled, e.SearchPaths, e.Disabled, e.Allowlist = true, []string{abs}, nil, nil
	e.Watch = config.Watch{Enabled: !s.attach, Mode: config.WatchReload, Debounce: debounce}
	if s.attach {
		e.Defaults = patient(e.Defaults)
	}
	cfg.Plugins, cfg.Hooks, cfg.Destinations, cfg.Audit = nil, nil, nil, config.Default().Audit
	return cfg, nil
}
