package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// callsPath is the list of the calls that the host keeps, the newest first.
const callsPath = "/api/v1/calls"

// follower prints calls as they end, each once, in the order of their ids.
type follower struct {
	console *console.Console
	running *hosts.Running
	failed  bool
	id      uint64 // of the last call that was seen
}

// followCalls prints the last of the kept calls, and then each call that ends, until ctx or the host ends.
func followCalls(ctx context.Context, c *console.Console, r *hosts.Running, last int, failed bool) error {
	f := &follower{console: c, running: r, failed: failed}
	begun := func() error {
		kept, err := f.kept(ctx)
		if n := len(kept); n > 0 {
			f.id = kept[n-1].ID
		}
		return cmp.Or(err, f.print(tail(f.chosen(kept), last)))
	}
	return r.FollowFrom(ctx, "/api/v1/events?kinds="+string(status.EventCall), begun, func(data []byte) error {
		var e status.Event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("an event that cannot be read: %w", err)
		}
		if e.Call == nil {
			return nil
		}
		return f.ended(ctx, status.PastCall{Time: e.Time, CallEvent: *e.Call})
	})
}

// ended handles the event of a call. Events between the list and the stream, or that were lost because this command
// reads too slowly, are taken from the list that the host keeps.
func (f *follower) ended(ctx context.Context, call status.PastCall) error {
	fresh := []status.PastCall{call}
	switch {
	case call.ID <= f.id:
		return nil
	case call.ID > f.id+1:
		kept, err := f.kept(ctx)
		if err != nil {
			return err
		}
		fresh = slices.DeleteFunc(kept, func(k status.PastCall) bool { return k.ID <= f.id || k.ID > call.ID })
		if n := len(fresh); n == 0 || fresh[n-1].ID != call.ID {
			fresh = append(fresh, call)
		}
		if lost := fresh[0].ID - f.id - 1; f.id > 0 && lost > 0 {
			f.console.Warn("%s are not shown, because this command read them too slowly",
				console.Count(int(lost), "call"))
		}
	}
	f.id = call.ID
	return f.print(f.chosen(fresh))
}

// kept returns the calls that the host keeps, the oldest first.
func (f *follower) kept(ctx context.Context) ([]status.PastCall, error) {
	var list struct{ Calls []status.PastCall }
	err := f.running.Get(ctx, callsPath, &list)
	slices.SortFunc(list.Calls, func(a, b status.PastCall) int { return cmp.Compare(a.ID, b.ID) })
	return list.Calls, err
}

func (f *follower) chosen(calls []status.PastCall) []status.PastCall {
	if !f.failed {
		return calls
	}
	return slices.DeleteFunc(calls, func(call status.PastCall) bool { return call.Outcome == status.OutcomeOK })
}

func tail[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

func (f *follower) print(calls []status.PastCall) error {
	for i := range calls {
		line, err := f.line(&calls[i])
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(f.console.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// line renders a call in one line: for a person with columns of a fixed width, else as JSON.
func (f *follower) line(call *status.PastCall) (string, error) {
	c := f.console
	if c.Output != "table" {
		data, err := json.Marshal(call)
		return console.SafeJSON(data), err
	}
	row := callRow(call)
	for i, cell := range row {
		row[i] = console.Safe(cell)
	}
	colour := console.Green
	switch {
	case call.Outcome.IsDenial():
		colour = console.Yellow
	case call.Outcome != status.OutcomeOK:
		colour = console.Red
	}
	line := fmt.Sprintf("%s %6s  %-28s %s %8s  %s", c.PaintOut(console.Dim, row[1]), row[0], row[3],
		c.PaintOut(colour, fmt.Sprintf("%-12s", row[4])), row[5], row[2])
	if call.Message != "" {
		line += ": " + console.Safe(call.Message)
	}
	return line, nil
}
