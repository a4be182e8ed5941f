package bridge

import (
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
)

// A destination has 5 s between SIGTERM and SIGKILL and three restarts, unless the operator states another grace. A
// host that only checks whether it starts restarts nothing.
func TestOptions(t *testing.T) {
	minute := manifest.Duration(time.Minute)
	stated := config.Default()
	stated.Extensions.Defaults.KillGrace = &minute
	for _, tt := range []struct {
		cfg      *config.Config
		once     bool
		grace    time.Duration
		attempts int
	}{
		{config.Default(), false, 5 * time.Second, 3},
		{stated, false, time.Minute, 3},
		{stated, true, time.Minute, 0},
	} {
		o := options(tt.cfg, config.Destination{}, tt.once).Resolve(manifest.Transport{Kind: manifest.KindHTTP})
		if o.KillGrace != tt.grace || o.Restart.MaxAttempts != tt.attempts {
			t.Errorf("grace %v, %d restarts, want %v and %d", o.KillGrace, o.Restart.MaxAttempts, tt.grace, tt.attempts)
		}
	}
}
