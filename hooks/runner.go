package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/process"
)

// RunnerOptions say how the commands of hooks are run. The zero value is usable.
type RunnerOptions struct {
	MaxProcesses int                  // at once, of all commands together; the others wait within their timeouts; default 16
	Containment  *process.Containment // holds what the commands start; nil holds their process groups
	Logger       *slog.Logger         // hears their stderr and messages; default: nobody
	Redact       func(string) string  // masks secrets in what they tell people and models; default: nothing is
}

// Runner runs the commands of hooks. It must be closed.
type Runner struct {
	o     RunnerOptions
	slots chan struct{}

	mu      sync.Mutex
	closed  bool
	stop    chan struct{}  // closed when no command may go on
	running sync.WaitGroup // commands; added to under mu while not closed
}

// NewRunner returns a runner without commands.
func NewRunner(o RunnerOptions) *Runner {
	o.MaxProcesses = cmp.Or(o.MaxProcesses, 16)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return &Runner{o: o, slots: make(chan struct{}, o.MaxProcesses), stop: make(chan struct{})}
}

// Close kills the commands that run, waits for them and lets none begin. It is
// idempotent.
func (r *Runner) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
	}
	r.mu.Unlock()
	r.running.Wait()
}

// errClosed is why a command of a closed runner does not run.
var errClosed = errors.New("the host is stopping")

// begin admits a command and returns what tells its end. It waits for a free slot.
func (r *Runner) begin(ctx context.Context) (end func(), err error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.stop:
		return nil, errClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		<-r.slots
		return nil, errClosed
	}
	r.running.Add(1)
	return func() { <-r.slots; r.running.Done() }, nil
}

// Command is a command line that is a handler. It is told the event as one JSON
// object on stdin and answers by its exit code and its stdout, as the commands of
// Claude Code's hooks do; see [Runner.Handler].
type Command struct {
	Handler          // all but Run; Name defaults to the command line
	Argv    []string // the program, in Dir when it has a slash, else on the PATH of Env, and its arguments
	Dir     string   // the working directory, absolute
	Env     []string // the complete environment; EXTHOST_EVENT, EXTHOST_SESSION_ID and EXTHOST_TOOL are added
}

// Handler returns the handler that runs c. Its error says why c can never run: its
// program is missing, cannot be started, or its matcher is no pattern.
//
// ${VAR} in a word of c is replaced from its environment, except in a line given
// to a shell with -c, which does so itself. The command is killed with all it has
// started when it ends or its time is over. Its contract:
//
//	exit 0      stdout that is a JSON object is the reply; other text is context at
//	            session_start and before_message, and else nothing
//	exit 2      a denial at gates, at after_message a wish to go on, after tool calls
//	            context, else nothing; the reason is the JSON's, else stderr
//	any other   a failure, unless stdout is JSON that denies or asks
func (r *Runner) Handler(c Command) (Handler, error) {
	if !slices.Contains(points, c.Point) {
		return Handler{}, fmt.Errorf("%q is not a hook point", c.Point)
	}
	if err := CheckMatcher(c.Matcher); err != nil {
		return Handler{}, err
	}
	cmd := &command{runner: r, dir: c.Dir}
	c.Name = cmp.Or(c.Name, strings.Join(c.Argv, " "))
	cmd.log = r.o.Logger.With("hook", c.Name)
	cmd.env = latest(c.Env)
	var err error
	if cmd.argv, err = resolved(c.Argv, c.Dir, cmd.env); err != nil {
		return Handler{}, err
	}
	c.Handler.Command, c.Handler.Run = c.Argv, cmd.run
	return c.Handler, nil
}

// latest is env with the last of each name, and without those added to it later.
func latest(env []string) (out []string) {
	seen := map[string]bool{eventVar: true, sessionVar: true, toolVar: true}
	for _, kv := range slices.Backward(env) {
		name, _, _ := strings.Cut(kv, "=")
		if !seen[name] {
			seen[name] = true
			out = append(out, kv)
		}
	}
	return out
}

// command is a [Command] that can run.
type command struct {
	runner *Runner
	argv   []string // its first word absolute
	dir    string
	env    []string
	log    *slog.Logger
}

// The variables that say what a command is run for.
const (
	eventVar   = "EXTHOST_EVENT"
	sessionVar = "EXTHOST_SESSION_ID"
	toolVar    = "EXTHOST_TOOL"
)

// How long the end of a command may take.
const (
	stopWait  = 4 * time.Second        // of one that is killed: SIGTERM, a second, SIGKILL
	drainWait = 500 * time.Millisecond // of its stdout after its death, when a stranger holds the pipe
)

// run is the handler.
func (c *command) run(ctx context.Context, e *Event) (*Reply, error) {
	end, err := c.runner.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	ran, err := c.execute(ctx, e)
	if err != nil {
		return nil, err
	}
	if ran.said.SystemMessage != "" {
		c.log.Info(ran.said.SystemMessage, "event", string(e.Point))
	}
	reply, err := ran.reply(e.Point)
	if err != nil {
		return nil, errors.New(c.runner.o.Redact(err.Error()))
	}
	if reply != nil {
		reply.Reason, reply.Context = c.runner.o.Redact(reply.Reason), c.runner.o.Redact(reply.Context)
	}
	return reply, nil
}

// execute runs the command once, to its end.
func (c *command) execute(ctx context.Context, e *Event) (*answer, error) {
	proc, err := process.Start(ctx, process.Spec{
		Path: c.argv[0], Args: c.argv[1:], Dir: c.dir, Containment: c.runner.o.Containment,
		Env: append(slices.Clip(c.env), eventVar+"="+string(e.Point), sessionVar+"="+e.Session, toolVar+"="+e.Tool),
		StderrLine: func(l process.Line) {
			c.log.Debug(l.Text, "event", string(e.Point))
		},
	})
	if err != nil {
		return nil, err
	}
	written := make(chan struct{})
	go func() { // ends with the process at the latest, which closes Stdin
		defer close(written)
		_, _ = proc.Stdin.Write(input(e, c.dir))
		proc.Stdin.Close()
	}()
	out := readStdout(proc)
	err = c.await(ctx, proc, out)
	out.end()
	<-written
	if err == nil && out.excess() {
		err = errTooMuch
	}
	if err != nil {
		return nil, err
	}
	return readAnswer(proc.Exit(), out.data, proc.Tail())
}

// await waits for the end of the process and sees to it that it comes in time.
func (c *command) await(ctx context.Context, proc *process.Process, out *stdout) (err error) {
	select {
	case <-proc.Done():
		return nil
	case <-out.full:
		proc.Kill()
		err = errTooMuch
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.runner.stop:
		proc.Kill()
		err = errClosed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if stopErr := proc.Stop(ctx, 0); stopErr != nil {
		c.log.Error("a hook's command does not die", "pid", proc.PID(), "error", stopErr)
	}
	return err
}
