package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/recording/player"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Diff returns exthost calls diff, which compares a cassette with the current extensions.
func Diff(c *console.Console) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "diff FILE [ID...]",
		Short: "Make the recorded calls again and show what has changed",
		Long: "Make the calls of tools in a cassette again, of the extensions of this directory as they are\n" +
			"now, and show how their tools and results differ from the recorded ones. Only tools that say\n" +
			"of themselves that they only read (readOnlyHint) are called, unless --all says otherwise. What\n" +
			"was left out is listed. The exit code is 1 when something has changed, and when an extension\n" +
			"of the cassette cannot be replayed.",
		Example: "  exthost calls diff notes.cassette\n  exthost calls diff notes.cassette notes -o json",
		Args:    console.AtLeastOne("exthost calls record FILE", "exthost calls diff needs the cassette"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := differ{all: all, only: args[1:]}
			return d.run(cmd.Context(), c, args[0])
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also call tools that may change something")
	return cmd
}

// differ compares the extensions of two hosts.
type differ struct {
	all    bool
	only   []string          // ids; nil: all
	ids    map[string]string // recorded id by the extension's id in the replay
	before *exthost.Host     // replays the cassette
	now    *exthost.Host
	result comparison
}

// comparison is the output of diff.
type comparison struct {
	Same    int      `json:"same"`    // number of calls with the recorded result
	Changes []change `json:"changes"` // of tools and results
	LeftOut []change `json:"left_out"`
	Failed  []failed `json:"failed"` // extensions that were not compared
}

// failed is an extension of the cassette that cannot be replayed.
type failed struct {
	Extension string `json:"extension"`
	Reason    string `json:"reason"`
}

// change is one difference, or a recorded call that was not repeated.
type change struct {
	Extension string          `json:"extension"`
	Tool      string          `json:"tool,omitempty"`
	What      string          `json:"what"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Recorded  json.RawMessage `json:"recorded,omitempty"`
	Now       json.RawMessage `json:"now,omitempty"`
}

func (d *differ) run(ctx context.Context, c *console.Console, file string) (err error) {
	dir, ids, err := hosts.Replays(file, manifest.MatchStrict, manifest.LatencyNone)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d.ids = ids
	if err := d.known(); err != nil {
		return err
	}
	replaying := hosts.Replaying(config.Default(), dir)
	replaying.Extensions.Trust = config.TrustOff
	if d.before, err = exthost.Open(ctx, replaying,
		exthost.Options{StateDir: filepath.Join(dir, "state"), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.before.Close()) }()
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	selected := func(id string) bool { return d.wants(id) }
	if d.now, err = hosts.Open(ctx, c, cfg, exthost.Options{Start: selected}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.now.Close()) }()
	if err := d.before.Ready(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if !d.wants(ids[id]) {
			continue
		}
		if reason := notReplayed(d.before, id); reason != "" {
			d.result.Failed = append(d.result.Failed, failed{ids[id], reason})
			continue
		}
		if err := d.extension(ctx, file, id); err != nil {
			return err
		}
	}
	return d.print(c)
}

// notReplayed returns why an extension of the replay does not run; "" if it does.
func notReplayed(h *exthost.Host, id string) string {
	for _, e := range h.Status().Extensions {
		switch {
		case e.ID != id:
		case e.State == string(supervisor.Ready):
			return ""
		default:
			return cmp.Or(e.Reason, e.State)
		}
	}
	return "its id is none that a manifest may have"
}

// known returns an error for an id in only that was not recorded.
func (d *differ) known() error {
	recorded := slices.Sorted(maps.Values(d.ids))
	for _, id := range d.only {
		if !slices.Contains(recorded, id) {
			e := &console.Error{
				Code: console.ExitNotFound,
				Text: fmt.Sprintf("%q was not recorded in the cassette, but %s", id, strings.Join(recorded, ", ")),
			}
			if near := text.Nearest(id, recorded); near != "" {
				e.Hint = "did you mean " + near + "?"
			}
			return e
		}
	}
	return nil
}

// wants reports whether a recorded extension is compared.
func (d *differ) wants(id string) bool {
	if len(d.only) > 0 && !slices.Contains(d.only, id) {
		return false
	}
	for _, of := range d.ids {
		if of == id {
			return true
		}
	}
	return false
}

// extension compares the tools and calls of one extension; id is its id in the replay.
func (d *differ) extension(ctx context.Context, file, id string) error {
	before, now := toolsOf(d.before, id), toolsOf(d.now, d.ids[id])
	of := d.ids[id]
	for name, tool := range before {
		switch today := now[name]; {
		case today == nil:
			d.changed(change{Extension: of, Tool: name, What: "the tool is gone", Recorded: tool.Own})
		case !player.Same(tool.Own, today.Own):
			d.changed(change{
				Extension: of,
				Tool:      name,
				What:      "the descriptor has changed",
				Recorded:  tool.Own,
				Now:       today.Own,
			})
		}
	}
	for name, tool := range now {
		if before[name] == nil {
			d.changed(change{Extension: of, Tool: name, What: "the tool is new", Now: tool.Own})
		}
	}
	tape, err := player.Open(player.Options{File: file, Extension: of})
	if err != nil {
		return err
	}
	calls, err := tape.Calls()
	if err != nil {
		return err
	}
	for i := range calls {
		n := &calls[i]
		if err := d.call(ctx, of, n, before[n.Tool], now[n.Tool]); err != nil {
			return err
		}
	}
	return nil
}

// call repeats a recorded call of an extension, unless leftOut gives a reason not to, and compares the results.
func (d *differ) call(ctx context.Context, of string, n *player.Call, before, now *tools.Entry) error {
	if why := d.leftOut(n, before, now); why != "" {
		d.result.LeftOut = append(d.result.LeftOut,
			change{Extension: of, Tool: n.Tool, What: why, Arguments: n.Arguments})
		if before != nil && n.Answered && !n.Asks { // makes the next equal call get the next recorded answer
			_, _ = call(ctx, d.before, before, n.Arguments)
		}
		return nil
	}
	recorded, err := call(ctx, d.before, before, n.Arguments)
	if err != nil {
		return err
	}
	result, err := call(ctx, d.now, now, n.Arguments)
	if err != nil {
		return err
	}
	if player.Same(recorded, result) {
		d.result.Same++
		return nil
	}
	d.changed(change{
		Extension: of,
		Tool:      n.Tool,
		What:      "the result has changed",
		Arguments: n.Arguments,
		Recorded:  recorded,
		Now:       result,
	})
	return nil
}

func (d *differ) changed(c change) { d.result.Changes = append(d.result.Changes, c) }

// leftOut returns why a call is not repeated; "" if it is.
func (d *differ) leftOut(n *player.Call, before, now *tools.Entry) string {
	switch {
	case now == nil || before == nil:
		return "there is no such tool now"
	case !n.Answered:
		return "the recording has no answer to it"
	case n.Masked:
		return "its arguments hold a secret, which was masked"
	case n.Asks:
		return "it asks its client something"
	case !d.all && (before.Risk != protocol.RiskRead || now.Risk != protocol.RiskRead):
		return "the tool may change something; --all calls it"
	}
	return ""
}

// toolsOf returns the tools of an extension by their own names.
func toolsOf(h *exthost.Host, id string) map[string]*tools.Entry {
	all := make(map[string]*tools.Entry)
	for _, e := range h.Tools().Entries() {
		if e.Extension == id {
			all[e.Tool] = e
		}
	}
	return all
}

// call returns the result of a call, or its error as an object. It returns an error only if ctx ends.
func call(ctx context.Context, h *exthost.Host, tool *tools.Entry, arguments json.RawMessage) (json.RawMessage, error) {
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	result, err := h.Call(ctx, tool.Name, arguments)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil {
		return json.RawMessage(result), nil
	}
	return rawjson.Set(json.RawMessage("{}"), "error", rawjson.Quote(protocol.Reason(err))), nil
}

// shown is how much of a value the table shows, in characters.
const shown = 300

func (d *differ) print(c *console.Console) error {
	byPlace := func(a, b change) int { return strings.Compare(a.Extension+"\x00"+a.Tool, b.Extension+"\x00"+b.Tool) }
	slices.SortStableFunc(d.result.Changes, byPlace)
	slices.SortStableFunc(d.result.LeftOut, byPlace)
	d.result.Failed = console.OrEmpty(d.result.Failed)
	d.result.Changes, d.result.LeftOut = console.OrEmpty(d.result.Changes), console.OrEmpty(d.result.LeftOut)
	var b strings.Builder
	for _, n := range d.result.Changes {
		fmt.Fprintf(&b, "%s %s %s: %s\n", console.Safe(n.Extension), console.Safe(n.Tool), value(n.Arguments), n.What)
		for _, side := range []struct {
			sign string
			text json.RawMessage
		}{{"-", n.Recorded}, {"+", n.Now}} {
			if side.text != nil {
				fmt.Fprintf(&b, "  %s %s\n", side.sign, value(side.text))
			}
		}
	}
	reasons := make(map[string]int)
	for _, n := range d.result.LeftOut {
		reasons[fmt.Sprintf("%s %s: %s", n.Extension, n.Tool, n.What)]++
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "left out: %s (%s)\n", console.Safe(reason), console.Count(reasons[reason], "call"))
	}
	for _, n := range d.result.Failed {
		fmt.Fprintf(&b, "%s cannot be replayed, and is not compared: %s\n", console.Safe(n.Extension),
			console.Safe(n.Reason))
	}
	fmt.Fprintf(&b, "%s the same, %s, %s left out", console.Count(d.result.Same, "call"),
		console.Count(len(d.result.Changes), "change"), console.Count(len(d.result.LeftOut), "call"))
	document := console.Document{Kind: "diff", Value: d.result, Text: b.String()}
	if len(d.result.Changes)+len(d.result.Failed) > 0 {
		document.Code = console.ExitFailed
	}
	return c.Print(document)
}

func value(raw json.RawMessage) string { return console.Cut(console.Safe(string(raw)), shown) }
