package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/exthost/exthost/internal/cli/console"
)

// hangup is the action of SIGHUP. Without one, SIGHUP ends the program.
type hangup struct{ act atomic.Pointer[func()] }

func (h *hangup) set(act func()) { h.act.Store(&act) }

// interruptible ends ctx at the first SIGINT or SIGTERM. The second one has its usual
// effect and ends the program. SIGHUP does the action of h; without one, or when the
// terminal is gone, it ends ctx. It stays ignored where the program was started so, to
// outlive its terminal.
func (h *hangup) interruptible(parent context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, stop
	}
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	terminal := console.IsTerminal(stderr)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if act := h.act.Load(); act != nil && console.IsTerminal(stderr) == terminal {
				(*act)()
			} else {
				cancel()
			}
		}
	})
	return ctx, func() {
		cancel()
		stop()
		wg.Wait()
		signal.Stop(hangups)
	}
}

// survivePipes makes a write to a closed stdout an error, so that extensions are still
// stopped in order, until restore is called. It catches SIGPIPE because children would
// inherit an ignored one.
func survivePipes() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
