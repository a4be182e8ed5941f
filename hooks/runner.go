package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
)

// RunnerOptions configure a [Runner]. The zero value is usable.
type RunnerOptions struct {
	// bound of simultaneous processes; further commands wait within their timeout; default 16
	MaxProcesses int
	Containment  *process.Containment // contains the descendants of commands; nil contains their process groups only
	Logger       *slog.Logger         // receives stderr and messages of commands; default: discarded
	Redact       func(string) string  // masks secrets in texts of commands; default: none
}

// Runner runs the commands of hooks. Its owner calls Close.
type Runner struct {
	o       RunnerOptions
	slots   chan struct{}
	running concurrent.Gate // commands
	closing context.Context // ends when commands must end
	stop    context.CancelFunc
}

// NewRunner returns a runner without commands.
func NewRunner(o RunnerOptions) *Runner {
	o.MaxProcesses = cmp.Or(o.MaxProcesses, 16)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	r := &Runner{o: o, slots: make(chan struct{}, o.MaxProcesses)}
	r.closing, r.stop = context.WithCancel(context.Background())
	return r
}

// Close kills the running commands, waits for them, and refuses new ones. It is idempotent.
func (r *Runner) Close() {
	idle := r.running.Close()
	r.stop()
	<-idle
}

// errClosed is the error of a command after Close.
var errClosed = errors.New("the host is stopping")

// acquire waits for a free slot and returns the function that releases it.
func (r *Runner) acquire(ctx context.Context) (end func(), err error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.closing.Done():
		return nil, errClosed
	}
	if !r.running.Enter() {
		<-r.slots
		return nil, errClosed
	}
	return func() { <-r.slots; r.running.Leave() }, nil
}

// Command is a handler that runs a command line. The command gets the event as one JSON
// object on stdin and answers with its exit code and stdout, like the commands of Claude
// Code's hooks; see [Runner.Handler].
type Command struct {
	Handler // all fields but Run; Name defaults to the point
	// the program, relative to Dir when it contains a slash, else found on the PATH of Env, and its arguments
	Argv []string
	Dir  string   // the working directory, absolute
	Env  []string // the complete environment; EXTHOST_EVENT, EXTHOST_SESSION_ID and EXTHOST_TOOL are added

	Sandbox *sandbox.Policy // confines its processes; nil confines nothing

	// Permit is called before each run; its error fails the run. still, if not nil, is called
	// after the run, and its error replaces the reply. Default: every run is permitted.
	Permit func(context.Context) (still func() error, err error)

	// Resolve fills in secrets in the environment of a run, which is Env and the variables of the
	// event. Its error fails the run. Default: none are filled in.
	Resolve func(ctx context.Context, env []string) ([]string, error)
}

// Handler returns the handler that runs c. It fails when c can never run: the program is
// missing or not executable, or the matcher is invalid.
//
// ${VAR} in a word of c is replaced from Env, except in a line for a shell with -c, which
// replaces it itself. The command and its descendants are killed when it ends or its
// timeout expires. The result depends on the exit code:
//
//	exit 0      a JSON object on stdout is the reply; other text is context at
//	            session_start and before_message, and ignored elsewhere
//	exit 2      a denial at gates, a request to continue at after_message, context
//	            after tool calls, ignored elsewhere; the reason is that of the JSON,
//	            else stderr
//	any other   a failure, unless stdout is JSON that denies or asks
func (r *Runner) Handler(c Command) (Handler, error) {
	if !slices.Contains(points, c.Point) {
		return Handler{}, fmt.Errorf("%q is not a hook point", c.Point)
	}
	if err := CheckMatcher(c.Matcher); err != nil {
		return Handler{}, err
	}
	c.Name = cmp.Or(c.Name, string(c.Point))
	cmd := &command{Command: c, runner: r, log: r.o.Logger.With("hook", c.Name)}
	cmd.Env = environment(c.Env)
	var err error
	if cmd.Argv, err = resolveArgv(c.Argv, c.Dir, cmd.Env); err != nil {
		return Handler{}, err
	}
	h := c.Handler
	h.Command, h.Run = c.Argv, cmd.run
	return h, nil
}

// environment returns env with the last value of each name, without the variables that run
// adds.
func environment(env []string) []string {
	return slices.DeleteFunc(process.Distinct(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == eventVar || name == sessionVar || name == toolVar
	})
}

// command is a [Command] ready to run: the program in Argv is an absolute path.
type command struct {
	Command
	runner *Runner
	log    *slog.Logger
}

// The variables that describe the event to a command.
const (
	eventVar   = "EXTHOST_EVENT"
	sessionVar = "EXTHOST_SESSION_ID"
	toolVar    = "EXTHOST_TOOL"
)

// Bounds of the end of a command.
const (
	stopWait  = 4 * time.Second        // for a command that is killed: SIGTERM, a second, SIGKILL
	drainWait = 500 * time.Millisecond // for stdout after the exit, when another process holds the pipe
)

// run implements Handler.Run.
func (c *command) run(ctx context.Context, e *Event) (*Reply, error) {
	end, err := c.runner.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var still func() error
	if c.Permit != nil {
		if still, err = c.Permit(ctx); err != nil {
			return nil, err
		}
	}
	result, err := c.execute(ctx, e)
	if still != nil {
		err = cmp.Or(still(), err)
	}
	if err != nil {
		return nil, err
	}
	if result.out.SystemMessage != "" {
		c.log.Info(result.out.SystemMessage, "event", string(e.Point))
	}
	reply, err := result.reply(e.Point)
	if err != nil {
		return nil, errors.New(c.runner.o.Redact(err.Error()))
	}
	if reply != nil {
		reply.Reason, reply.Context = c.runner.o.Redact(reply.Reason), c.runner.o.Redact(reply.Context)
	}
	return reply, nil
}

// maxStdout bounds the stdout of a command, in bytes. It has room for a changed tool result.
const maxStdout = 4 << 20

var errOutputLimit = fmt.Errorf("it wrote more than %d MiB to stdout and was killed", maxStdout>>20)

// execute runs the command once and waits for its end.
func (c *command) execute(ctx context.Context, e *Event) (*commandResult, error) {
	env := append(slices.Clip(c.Env), eventVar+"="+string(e.Point), sessionVar+"="+e.Session, toolVar+"="+e.Tool)
	if c.Resolve != nil {
		var err error
		if env, err = c.Resolve(ctx, env); err != nil {
			return nil, err
		}
	}
	proc, err := process.Start(ctx, process.Spec{
		Path:        c.Argv[0],
		Args:        c.Argv[1:],
		Dir:         c.Dir,
		Containment: c.runner.o.Containment,
		Sandbox:     c.Sandbox,
		Env:         env,
		StderrLine: func(l process.Line) {
			c.Sandbox.Hear(l.Text)
			c.log.Debug(l.Text, "event", string(e.Point))
		},
	})
	if err != nil {
		return nil, err
	}
	written := make(chan struct{})
	go func() { // ends when Write fails, at the latest at the exit of the process
		defer close(written)
		_, _ = proc.Stdin.Write(e.commandInput(c.Dir))
		proc.Stdin.Close()
	}()
	out := proc.CollectStdout(maxStdout)
	err = c.await(ctx, proc, out.Overflow)
	data, complete := out.End(drainWait)
	<-written
	if err == nil && !complete {
		err = errOutputLimit
	}
	if err != nil {
		return nil, err
	}
	return readResult(proc.Exit(), data, proc.Tail())
}

// await waits for the exit of the process, and stops it when ctx or the runner ends or
// stdout exceeds its limit.
func (c *command) await(ctx context.Context, proc *process.Process, overflow <-chan struct{}) (err error) {
	select {
	case <-proc.Done():
		return nil
	case <-overflow:
		proc.Kill()
		err = errOutputLimit
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.runner.closing.Done():
		proc.Kill()
		err = errClosed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if stopErr := proc.Stop(ctx, 0); stopErr != nil {
		c.log.Error("process survived SIGKILL", "pid", proc.PID(), "error", stopErr)
	}
	return err
}
