package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
)

// devDebounce is the quiet after which a save is taken for one: an author waits.
const devDebounce = manifest.Duration(10 * time.Millisecond)

func (a *app) devCommand() *cobra.Command {
	var attach bool
	cmd := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Work on an extension: run it, swap it at every save, call its tools at a prompt",
		Long: "Run the extension in DIR (default: this directory) alone, without policies and hooks. A save\n" +
			"of its manifest, of its command file or of what [dev] watch names swaps it; a broken one\n" +
			"leaves the build before in place and says where it is broken. What it writes to stderr is\n" +
			"shown, and so is what a save changes in its tools. At the prompt, NAME key=value… calls a\n" +
			"tool as exthost call does; tab completes, help helps. Without a terminal, calls are read\n" +
			"from stdin line by line. With --attach the extension is not started: the command that is\n" +
			"shown runs it in another terminal, under a debugger if you like.",
		Example: "  exthost dev extensions/weather\n  echo 'greet name=Ada' | exthost dev extensions/weather",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return one("the directory of an extension")(c, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.dev(cmd.Context(), append(args, ".")[0], attach)
		},
	}
	cmd.Flags().BoolVar(&attach, "attach", false, "do not start the extension, wait for one that is run elsewhere by exthost attach")
	return cmd
}

// dev is one session with an extension at work.
type dev struct {
	app     *app
	host    *exthost.Host
	dir     string
	out     io.Writer // whole lines, above the prompt if there is one
	colours bool

	mu      sync.Mutex // guards what follows; held while several lines are to stay together
	offered map[string]offer
	broken  map[string]bool            // ids whose latest save could not be used
	skipped map[string]string          // why each was, when that was shown last
	calls   map[int]context.CancelFunc // in flight
	next    int
	tapping context.CancelFunc // nil: nobody taps
	tasks   sync.WaitGroup
}

func (a *app) dev(ctx context.Context, dir string, attach bool) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &exitError{code: exitNotFound, text: dir + " is not the directory of an extension", hint: "exthost init NAME --lang LANG makes one"}
	}
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return err
	}
	d := &dev{app: a, dir: dir, out: a.out, colours: a.coloursOn(a.out), offered: map[string]offer{}, broken: map[string]bool{}, skipped: map[string]string{}, calls: map[int]context.CancelFunc{}}
	o := exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: filepath.Join(state, ".dev"), Reread: a.devConfig(dir, attach), OnReload: d.reloaded, Mode: exthost.Mode{StartLazy: true, Background: true}}
	if attach {
		sockets, err := os.MkdirTemp("", "exthost-attach-") // mode 0700
		if err != nil {
			return err
		}
		defer os.RemoveAll(sockets)
		o.Mode.Command = relayed(sockets)
	}
	cfg, err := o.Reread()
	if err != nil {
		return err
	}
	leave, err := d.enterTerminal()
	if err != nil {
		return err
	}
	defer leave()
	return d.session(ctx, cfg, o, attach)
}

// session runs the host until the author has had enough.
func (d *dev) session(ctx context.Context, cfg *config.Config, o exthost.Options, attach bool) (err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	began := time.Now()
	if d.host, err = exthost.Open(ctx, cfg, o); err != nil {
		return err
	}
	d.tasks.Go(func() { d.showLog(ctx, attach) })
	switch _, interactive := d.out.(*term.Terminal); {
	case attach:
		d.tasks.Go(func() { d.awaitAttached(ctx) })
	case interactive:
		d.tasks.Go(func() { d.welcome(ctx, began) })
	default:
		d.welcome(ctx, began) // before the first call
	}
	err = d.prompt(ctx)
	end()
	err = errors.Join(err, d.host.Close())
	d.tasks.Wait()
	return err
}

// devConfig reads the configuration for the extension of a directory alone.
func (a *app) devConfig(dir string, attach bool) func() (*config.Config, error) {
	return func() (*config.Config, error) {
		cfg, _, err := a.load()
		if err != nil {
			return nil, err
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		e := &cfg.Extensions
		e.Enabled, e.SearchPaths, e.Disabled, e.Allowlist = true, []string{abs}, nil, nil
		e.Watch = config.Watch{Enabled: !attach, Mode: config.WatchReload, Debounce: devDebounce}
		if attach {
			e.Defaults = patient(e.Defaults)
		}
		cfg.Plugins, cfg.Hooks, cfg.Destinations, cfg.Audit = nil, nil, nil, config.Default().Audit
		return cfg, nil
	}
}

// enterTerminal prepares the prompt when there is a terminal.
func (d *dev) enterTerminal() (leave func(), err error) {
	in, ok := d.app.in.(*os.File)
	if !ok || !isTerminal(in) || !isTerminal(d.app.out) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	screen := struct {
		io.Reader
		io.Writer
	}{&keys{in, d}, d.app.out}
	t := term.NewTerminal(screen, d.paint(bold, "> "))
	t.AutoCompleteCallback = d.complete
	d.out = t
	return func() { _ = term.Restore(int(in.Fd()), before); fmt.Fprintln(d.app.out) }, nil
}

// keys are those of the keyboard. Ctrl-C cancels calls in flight; without any it ends
// the session.
type keys struct {
	io.Reader
	d *dev
}

const ctrlC = "\x03"

func (k *keys) Read(p []byte) (int, error) {
	for {
		n, err := k.Reader.Read(p)
		if !bytes.Contains(p[:n], []byte(ctrlC)) || !k.d.cancelCalls() {
			return n, err
		}
		if n = copy(p, bytes.ReplaceAll(p[:n], []byte(ctrlC), nil)); n > 0 || err != nil {
			return n, err
		}
	}
}

// typed is a line of the author's, or the end of them: ctrl-c, ctrl-d, or of the input.
type typed struct {
	line string
	end  bool
}

// prompt does what lines say until one says quit, or ctx ends. Without a terminal the
// end of the input is not the end: what is saved still counts. The goroutine that
// reads is left behind: nothing interrupts the read of a terminal.
func (d *dev) prompt(ctx context.Context) error {
	lines := make(chan typed)
	go d.readLines(ctx, lines)
	_, interactive := d.out.(*term.Terminal)
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-lines:
			if t.end && interactive || !t.end && !d.do(ctx, t.line, interactive) {
				return nil
			}
		}
	}
}

// readLines reads lines until the end of the input or ctx.
func (d *dev) readLines(ctx context.Context, lines chan<- typed) {
	input := bufio.NewScanner(d.app.in)
	t, interactive := d.out.(*term.Terminal)
	for {
		var next typed
		if interactive {
			if columns, rows, err := term.GetSize(int(d.app.in.(*os.File).Fd())); err == nil {
				_ = t.SetSize(columns, rows)
			}
			line, err := t.ReadLine()
			next = typed{line, err != nil && !errors.Is(err, term.ErrPasteIndicator)}
		} else {
			next.end = !input.Scan()
			next.line = input.Text()
		}
		select {
		case lines <- next:
		case <-ctx.Done():
			return
		}
		if next.end {
			return
		}
	}
}

// paint colours s where the session shows colours.
func (d *dev) paint(c colour, s string) string {
	if !d.colours {
		return s
	}
	return paintWith(c, s)
}

// say prints lines that stay together.
func (d *dev) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format+"\n", args...)
}
