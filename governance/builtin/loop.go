package builtin

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// loopConfig is the config of the built-in policy loop, which stops a model that repeats
// the same call:
//
//	calls: 5       # allowed calls of one tool with the same arguments; default 5
//	window: 1m     # within this time; default 1m
//	action: deny   # for the next call: deny (default) or ask
//
// Each session is counted separately. Category rate_limiting only.
type loopConfig struct {
	Calls  int               `json:"calls"`
	Window settings.Duration `json:"window"`
	Action string            `json:"action"`
}

// maxLoopCalls bounds the times stored for one call.
const maxLoopCalls = 1000

type loopKey struct {
	sessionKey
	tool      string
	arguments uint64 // a hash of them
}

type loop struct {
	loopConfig
	seed maphash.Seed
	mu   sync.Mutex
	seen lru[loopKey, []time.Time] // times of the allowed calls, the oldest first
}

func newLoop(s governance.Spec) (governance.Policy, error) {
	p := &loop{loopConfig: loopConfig{Calls: 5, Window: settings.Duration(time.Minute)}, seed: maphash.MakeSeed()}
	if err := settings.Decode(s.Config, &p.loopConfig); err != nil {
		return nil, err
	}
	errs := []error{requireRateLimiting(s), settings.OneOf("action", &p.Action, denied, asked)}
	if p.Calls < 1 || p.Calls > maxLoopCalls {
		errs = append(errs, settings.Wrong("config.calls", "is a count from 1 to %d", maxLoopCalls))
	}
	if p.Window == 0 {
		errs = append(errs, settings.Wrong("config.window", "is a time above 0"))
	}
	return p, errors.Join(errs...)
}

// Decide implements [governance.Policy].
func (p *loop) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Response || x.Method != protocol.MethodToolsCall || !x.ToChild {
		return governance.Decision{}, nil
	}
	key := loopKey{keyOf(x), x.Tool, maphash.Bytes(p.seed, rawjson.Get(x.Request, "arguments"))}
	now, window := x.Now(), time.Duration(p.Window)
	p.mu.Lock()
	defer p.mu.Unlock()
	times := p.seen.get(key)
	current := slices.IndexFunc(*times, func(at time.Time) bool { return now.Sub(at) < window })
	if current < 0 {
		current = len(*times)
	}
	*times = slices.Delete(*times, 0, current)
	if len(*times) < p.Calls {
		*times = append(*times, now)
		return governance.Decision{}, nil
	}
	d := governance.Decision{
		Action:     governance.Deny,
		Code:       "loop_detected",
		RetryAfter: (*times)[0].Add(window).Sub(now),
		Reason: fmt.Sprintf("%s was called %d times with the same arguments within %s; try something else, or "+
			"the same call later", x.Tool, p.Calls, window),
	}
	if p.Action == asked {
		d.Action = governance.Ask
	}
	return d, nil
}
