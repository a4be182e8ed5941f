package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

const (
	noiseMessages = 20
	hugeBytes     = 4 << 20 // of text added to a result
)

// InjectFaults makes tool calls fail as configured under inject. The failure occurs where an instance would fail, so
// hooks, policies, breaker and restarts treat it as real.
func InjectFaults(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		if c.Snapshot.Faults == nil || !c.isToolCall() {
			return next(ctx, c, params)
		}
		f := c.fault
		if c.fault = nil; f == nil {
			drawn := c.Snapshot.Faults.Next(c.Exchange.Tool)
			f = &drawn
		}
		if err := c.delay(ctx, f); err != nil {
			return nil, err
		}
		switch f.Kind {
		case faults.Crash:
			// each call of exec has its own process
			if c.Target.Base().Candidate.Manifest.Transport.Kind != manifest.KindExec {
				c.Instance.Kill()
			}
			return nil, c.injected(f, protocol.ChildExited, "its process was killed")
		case faults.Noise:
			c.makeNoise(ctx, f)
		}
		before := c.handed.requests
		result, err := next(ctx, c, params)
		switch {
		// the next attempt gets this fault: a new draw would depend on what else kills the process
		case c.handed.requests == before && c.Instance.IsUnsent(err):
			f.Slow, c.fault = 0, f
			return nil, err
		case err != nil:
			return nil, err
		case f.Kind == faults.Garbage:
			return nil, c.injected(f, protocol.InvalidResponse, "its answer is not a valid response")
		case f.Kind == faults.Huge:
			return enlarged(result), nil
		}
		return result, nil
	}
}

// delay waits as the fault states. A hanging call ends with call_timeout, with its instance, or with ctx.
func (c *Call) delay(ctx context.Context, f *faults.Fault) error {
	limit := c.Target.Base().Spec.Options.CallTimeout
	wait := f.Slow
	late := limit > 0 && wait >= limit || f.Kind == faults.Hang
	if late {
		wait = limit
	}
	if wait == 0 && !late {
		return nil
	}
	var clock <-chan time.Time // nil never fires: a call that hangs without a limit
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		clock = timer.C
	}
	select {
	case <-clock:
	case <-c.Instance.Ended():
		return c.injected(f, c.Instance.Why(), "its process ended before it answered")
	case <-ctx.Done():
		kind := protocol.Canceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			kind = protocol.CallTimeout
		}
		return c.injected(f, kind, "it has not answered: "+ctx.Err().Error())
	}
	if late {
		return c.injected(f, protocol.CallTimeout, fmt.Sprintf("it did not answer in time: call_timeout is %v", limit))
	}
	return nil
}

// injected returns the error of a fault. As with a real fault, the extension may have acted on the call.
func (c *Call) injected(f *faults.Fault, kind protocol.Kind, what string) error {
	return c.hand(func() error {
		err := protocol.Errorf(kind, "%s; the fault is injected by %s of the configuration", what, f.Key)
		err.Outcome = outcomeUnknown
		return err
	})
}

// makeNoise sends log messages to the caller.
func (c *Call) makeNoise(ctx context.Context, f *faults.Fault) {
	if c.Sent.Client == nil {
		return
	}
	for n := range noiseMessages {
		params := fmt.Sprintf(`{"level":"info","logger":"%s","data":"noise %d of %d"}`, f.Key, n+1, noiseMessages)
		// the call goes on if the caller gets no messages
		_ = c.Sent.Client.Notify(ctx, protocol.MethodMessage, json.RawMessage(params))
	}
}

// enlarged returns result with a huge text added.
func enlarged(result json.RawMessage) json.RawMessage {
	var content []json.RawMessage
	_ = json.Unmarshal(rawjson.Get(result, "content"), &content) // anything but a list is replaced
	text := json.RawMessage(`{"type":"text","text":"` + strings.Repeat("huge ", hugeBytes/5) + `"}`)
	return rawjson.Set(result, "content", rawjson.AppendList(nil, append(content, text)))
}
