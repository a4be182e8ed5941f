package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// patient gives a person with a debugger all the time there is, unless the manifest
// does not.
func patient(r manifest.Runtime) manifest.Runtime {
	never, soon, again := manifest.Duration(0), manifest.Duration(100*time.Millisecond), -1
	r.Activation = manifest.ActivationEager
	r.StartTimeout, r.CallTimeout, r.MaxCallTimeout = &never, &never, &never
	r.Restart.MaxAttempts, r.Restart.BaseBackoff, r.Restart.MaxBackoff = &again, &soon, &soon
	return r
}

// relayed has a relay run in place of each extension, with a socket in dir.
func relayed(dir string) func(id string, argv []string) []string {
	return func(id string, argv []string) []string {
		return append([]string{"exthost", "attach", "--relay", filepath.Join(dir, id+".sock"), "--"}, argv...)
	}
}

// attachTick is how often the session looks whether somebody has attached.
const attachTick = 100 * time.Millisecond

// awaitAttached shows extensions as they are attached, and lets those be attached
// again whose handshake has failed.
func (d *dev) awaitAttached(ctx context.Context) {
	tick := time.NewTicker(attachTick)
	defer tick.Stop()
	shown := map[string]time.Time{} // since when each was ready when it was shown
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, x := range d.host.Status().Extensions {
			d.noticeAttached(ctx, x, shown)
		}
	}
}

func (d *dev) noticeAttached(ctx context.Context, x status.Extension, shown map[string]time.Time) {
	switch {
	case x.State == string(supervisor.Failed):
		d.say("%s %s: %s", d.paint(red, "✗"), safe(x.ID), safe(x.Reason))
		restarting, cancel := context.WithTimeout(ctx, attachTick) // which goes on after it
		defer cancel()
		_ = d.host.Admin().Restart(restarting, x.ID)
	case x.State == string(supervisor.Ready) && len(x.Instances) > 0 && shown[x.ID] != x.Instances[0].StartedAt:
		_, again := shown[x.ID]
		shown[x.ID] = x.Instances[0].StartedAt
		d.mu.Lock()
		defer d.mu.Unlock()
		if again {
			fmt.Fprintf(d.out, "%s %s is attached again\n", d.paint(green, "●"), safe(x.ID))
			d.showChange(x.ID)
		} else {
			d.showExtension(x, "attached")
		}
	case x.State == status.StateSkipped && shown[x.ID].IsZero():
		shown[x.ID] = time.Now()
		d.say("%s %s is skipped: %s", d.paint(red, "✗"), safe(x.ID), safe(x.Reason))
	}
}
