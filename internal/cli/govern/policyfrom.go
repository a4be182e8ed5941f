package govern

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/recording/player"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// rehearsal reports what the policies would do now about recorded calls.
type rehearsal struct {
	Calls     int       `json:"calls"`     // number of recorded calls
	Otherwise []decided `json:"otherwise"` // calls that the policies would not let pass unchanged now
}

// decided is a decision to stop or change a recorded call, which passed when it was recorded.
type decided struct {
	Extension string          `json:"extension"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Policy    string          `json:"policy,omitempty"`
	Action    string          `json:"action"`
	Shadow    bool            `json:"shadow,omitempty"` // the policy is in shadow mode: the call would pass
	Reason    string          `json:"reason,omitempty"`
}

// testRecorded tests the tool calls of a cassette, which all reached their extensions when they were recorded.
func testRecorded(ctx context.Context, c *console.Console, file string) (err error) {
	dir, ids, err := hosts.Replays(file, manifest.MatchStrict, manifest.LatencyNone)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	h, err := hosts.Open(ctx, c, hosts.Replaying(cfg, dir), exthost.Options{Mode: exthost.Mode{Inspect: true}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	result := rehearsal{Otherwise: []decided{}}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		tape, err := player.Open(player.Options{File: file, Extension: ids[id]})
		if err != nil {
			return err
		}
		calls, err := tape.Calls()
		if err != nil {
			return err
		}
		for i := range calls {
			result.Calls++
			n, err := rehearse(ctx, h, id, &calls[i])
			if err != nil {
				return err
			}
			for i := range n {
				n[i].Extension = ids[id]
			}
			result.Otherwise = append(result.Otherwise, n...)
		}
	}
	return c.Print(result.document())
}

// rehearse returns the decisions that would stop or change a recorded call now.
func rehearse(ctx context.Context, h *exthost.Host, id string, n *player.Call) (list []decided, err error) {
	arguments := n.Arguments
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	params := rawjson.Edit(json.RawMessage("{}"),
		map[string]json.RawMessage{"name": rawjson.Quote(n.Tool), "arguments": arguments})
	trace, failed := h.Admin().TestCall(ctx,
		&protocol.Call{Extension: id, Method: protocol.MethodToolsCall, Params: params})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failed != nil && trace.ID == "" { // no policy judged it
		return nil, failed
	}
	of := decided{Tool: n.Tool, Arguments: n.Arguments}
	for _, s := range trace.Steps {
		if s.Action == governance.Allow || failed != nil && !s.Ignored {
			continue
		}
		step := of
		step.Policy, step.Action, step.Reason, step.Shadow = s.Policy, string(s.Action), s.Reason, s.Ignored
		list = append(list, step)
	}
	if failed != nil {
		of.Policy, of.Reason = trace.Verdict.Policy, protocol.Reason(failed)
		of.Action = cmp.Or(string(trace.Verdict.Action), string(protocol.KindOf(failed)))
		list = append(list, of)
	}
	return list, nil
}

// shownArguments is how much of the arguments the table shows, in characters.
const shownArguments = 120

func (r *rehearsal) document() console.Document {
	var b strings.Builder
	denied := false
	for _, n := range r.Otherwise {
		how := n.Action
		if n.Shadow {
			how = "would " + n.Action + " (shadow)"
		}
		denied = denied || !n.Shadow && n.Action != string(governance.Modify) && n.Action != string(governance.Respond)
		fmt.Fprintf(&b, "%s %s %s: %s by %s", console.Safe(n.Extension), console.Safe(n.Tool),
			console.Cut(console.Safe(string(n.Arguments)), shownArguments), how, n.Policy)
		if n.Reason != "" {
			b.WriteString(": " + console.Safe(n.Reason))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s recorded, %d decided otherwise", console.Count(r.Calls, "call"), len(r.Otherwise))
	d := console.Document{Kind: "rehearsal", Value: r, Text: b.String()}
	if denied {
		d.Code = console.ExitDenied
	}
	return d
}
