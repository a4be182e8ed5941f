package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/exthost/exthost"
)

// interruptible ends ctx at the first SIGINT or SIGTERM; the second has its usual
// effect and ends the program. SIGHUP does what [app.onHangup] says, or else ends
// ctx as well, as it does when the terminal is gone. Where the program was started
// to outlive its terminal it is ignored.
func (a *app) interruptible(parent context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, stop
	}
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	terminal := isTerminal(a.err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if act := a.hangup.Load(); act != nil && isTerminal(a.err) == terminal {
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

// onHangup makes SIGHUP call act instead of ending the program.
func (a *app) onHangup(act func()) { a.hangup.Store(&act) }

// reloadOnHangup is Reload for somebody who reads the log.
func reloadOnHangup(ctx context.Context, h *exthost.Host, f front, log *slog.Logger) {
	if f.reload != nil {
		if err := f.reload(); err != nil {
			log.Error("the certificate is not read again, the one before goes on", "error", err)
		}
	}
	c, err := h.Admin().Reload(ctx)
	if err != nil {
		log.Error("not reloaded, everything goes on as it was", "error", err)
		return
	}
	for _, k := range c.Kept {
		log.Warn("not reloaded, the build before goes on", "extension", k.ID, "reason", k.Reason)
	}
	for _, section := range c.Restart {
		log.Warn("changed, and counts when exthost is started again", "section", section)
	}
}
