package dev

import (
	"context"
	"path/filepath"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/supervisor"
)

// patient removes the time limits of an extension, which a debugger would exceed. A
// limit in the manifest stays.
func patient(r manifest.Runtime) manifest.Runtime {
	never, soon, again := manifest.Duration(0), manifest.Duration(100*time.Millisecond), -1
	r.Activation = manifest.ActivationEager
	r.StartTimeout, r.CallTimeout, r.MaxCallTimeout = &never, &never, &never
	r.Restart.MaxAttempts, r.Restart.BaseBackoff, r.Restart.MaxBackoff = &again, &soon, &soon
	return r
}

// relayed has the host run a relay in place of each extension, with a socket in dir.
func relayed(dir string) func(id string, argv []string) []string {
	return func(id string, argv []string) []string {
		return append([]string{"exthost", "attach", "--relay", filepath.Join(dir, id+".sock"), "--"}, argv...)
	}
}

// attachTick is the interval at which a session looks for attached extensions.
const attachTick = 100 * time.Millisecond

// awaitAttached shows extensions when they are attached. It restarts those whose
// handshake failed, so that they can be attached again.
func (b *builds) awaitAttached(ctx context.Context) {
	tick := time.NewTicker(attachTick)
	defer tick.Stop()
	shown := map[string]time.Time{} // the start of the process that was shown last
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, x := range b.host.Status().Extensions {
			b.showAttached(ctx, x, shown)
		}
	}
}

func (b *builds) showAttached(ctx context.Context, x exthost.ExtensionStatus, shown map[string]time.Time) {
	switch {
	case x.State == string(supervisor.Failed):
		b.say("%s %s: %s", b.paint(console.Red, "✗"), console.Safe(x.ID), console.Safe(x.Reason))
		restarting, cancel := context.WithTimeout(ctx, attachTick) // the restart goes on after that
		defer cancel()
		_ = b.host.Admin().Restart(restarting, x.ID)
	case x.State == string(supervisor.Ready) && len(x.Instances) > 0 && shown[x.ID] != x.Instances[0].StartedAt:
		_, again := shown[x.ID]
		shown[x.ID] = x.Instances[0].StartedAt
		b.mu.Lock()
		defer b.mu.Unlock()
		if again {
			b.print("%s %s is attached again", b.paint(console.Green, "●"), console.Safe(x.ID))
			b.showChange(x.ID)
		} else {
			b.showExtension(x, "attached")
		}
	case x.State == exthost.StateSkipped && shown[x.ID].IsZero():
		shown[x.ID] = time.Now()
		b.say("%s %s is skipped: %s", b.paint(console.Red, "✗"), console.Safe(x.ID), console.Safe(x.Reason))
	}
}
