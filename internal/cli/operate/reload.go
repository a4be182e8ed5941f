package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Reload returns exthost reload, which makes the running host read its folders and files again.
func Reload(c *console.Console) *cobra.Command {
	var dryRun bool
	var watchMode string
	cmd := &cobra.Command{
		Use:         "reload [NODE.ID]",
		Short:       "Apply changes of folders and files to the running host",
		Annotations: console.AsksHost,
		Long: "Have the host of this directory apply the current content of its folders and\n" +
			"files. New and changed extensions start beside the running ones and then replace them;\n" +
			"removed ones end after their calls. A broken one changes nothing: the previous build goes\n" +
			"on. The same as SIGHUP. The exit code is 3 while a manifest is broken, and 7 when a new or\n" +
			"changed extension does not start; one that was down before and still is, is a warning. With\n" +
			"NODE.ID, another node of the cluster applies what concerns that extension of its own; its\n" +
			"cluster.operators has to name this node.\n\n" +
			"--watch has the host look for changes of extensions and of its configuration by itself: log\n" +
			"reports them, reload applies them, on uses extensions.watch.mode. The setting holds until that\n" +
			"host ends; to keep it, set extensions.watch in the configuration. status shows it.",
		Example: "  exthost reload --dry-run\n  exthost reload --watch reload\n  " +
			"exthost reload --watch status -o json",
		SuggestFor: []string{"watch"},
		Args:       console.AtMostOne("an extension of another node"),
		RunE: hosts.OnRunning(func(ctx context.Context, r *hosts.Running, args []string) error {
			if watchMode != "" {
				return watchCommand(ctx, c, r, watchMode, args)
			}
			if len(args) == 1 {
				return reloadRemote(ctx, c, r, args[0], dryRun)
			}
			before, _ := r.Status(ctx) // if this fails, everything that is left out counts as new
			change, err := reload(ctx, r, url.Values{"dry_run": {strconv.FormatBool(dryRun)}})
			if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ConfigInvalid {
				return &console.Error{
					Code: console.ExitInvalid,
					Text: console.NearbyText(e.Message),
					Hint: "fix it, then exthost reload; until then nothing changes",
				}
			}
			if err != nil {
				return err
			}
			if err := c.Print(console.Document{
				Kind:  "change",
				Value: change,
				Names: changedNames(change),
				Text:  changeText(c, change, dryRun),
			}); err != nil {
				return err
			}
			broken := 0
			change.Failed = sayStillDown(c, change)
			if !dryRun {
				broken = printBroken(ctx, c, r, before, change)
			}
			return notReloaded(change, broken, "")
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only report what would change")
	cmd.Flags().StringVar(&watchMode, "watch", "", "look for changes by `MODE`: "+strings.Join(watchModes, ", "))
	cmd.MarkFlagsMutuallyExclusive("watch", "dry-run")
	console.CompleteFlag(cmd, "watch", watchModes)
	return cmd
}

// reloadRemote makes another node reload one of its extensions.
func reloadRemote(ctx context.Context, c *console.Console, r *hosts.Running, id string, dryRun bool) error {
	s, err := r.Status(ctx)
	if err != nil {
		return err
	}
	node, _, ok := hosts.SplitRemote(s, id)
	if _, err := hosts.Worker(s, id); err != nil && !ok && strings.Contains(id, ".") {
		return hosts.NodeGone(s, id, err)
	}
	if !ok || dryRun {
		return console.Usagef("",
			"exthost reload takes an extension of another node, as NODE.ID and without --dry-run; without it, it "+
				"applies all that has changed here")
	}
	change, err := reload(ctx, r, url.Values{"only": {id}})
	if err != nil {
		return hosts.RemoteError(node, err)
	}
	for i := range change.Kept {
		change.Kept[i].Next = hosts.RemoteCommand(change.Kept[i].Next, node)
	}
	if err := c.Print(console.Document{
		Kind:  "change",
		Value: change,
		Names: changedNames(change),
		Text:  changeText(c, change, false),
	}); err != nil {
		return err
	}
	return notReloaded(change, 0, node)
}

func reload(ctx context.Context, r *hosts.Running, query url.Values) (change status.Change, err error) {
	err = r.Post(ctx, "/api/v1/reload?"+query.Encode(), nil, &change)
	return change, err
}

// printBroken prints on stderr the files that became no extension, the errors of policies that the reload changed, and
// the extensions that do not run. It returns the number of these files, which a reload does not count as changes.
func printBroken(ctx context.Context, c *console.Console, r *hosts.Running, before status.Status, change status.Change,
) int {
	s, err := r.Status(ctx)
	if err != nil {
		return 0 // the result of the reload is printed already
	}
	for _, d := range hosts.Unlisted(s) {
		name, ofPolicy := strings.CutPrefix(d.Extension, status.PolicyPrefix)
		if d.Level == protocol.LevelError || ofPolicy && slices.Contains(change.Policies, name) {
			c.Say(d)
		}
	}
	for _, d := range leftOut(before, s, change.Empty()) {
		c.Say(d)
	}
	return len(hosts.BrokenFiles(s))
}

// leftOut reports which extensions do not run. If again is false, it omits those that did not run before the reload
// either.
func leftOut(before, now status.Status, again bool) (diags []protocol.Diagnostic) {
	for _, x := range now.Extensions {
		if !x.LeftOut() {
			continue
		}
		d := protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Extension: x.ID,
			Message:   x.State + " as before, " + x.Reason,
			Hint:      hosts.Remedy(now, x),
		}
		known := slices.ContainsFunc(before.Extensions,
			func(b status.Extension) bool { return b.ID == x.ID && b.State == x.State })
		switch {
		case known && !again:
			continue
		case !known && x.State == status.StateUntrusted:
			d.Message, d.Hint = "new, waits for exthost trust "+x.ID, ""
		case !known:
			d.Message = x.State + ", " + x.Reason
		}
		diags = append(diags, d)
	}
	return diags
}

// sayStillDown warns of the extensions that had failed before the reload, which has not changed them, and failed again.
// It returns the other failures.
func sayStillDown(c *console.Console, change status.Change) (failed []protocol.Diagnostic) {
	for _, d := range change.Failed {
		if !slices.Contains(change.Retried, d.Extension) {
			failed = append(failed, d)
			continue
		}
		d.Level, d.Message = protocol.LevelWarn, "still down, and this reload has not changed it: "+d.Message
		d.Hint = cmp.Or(d.Hint, "exthost status "+d.Extension)
		c.Say(d)
	}
	return failed
}

// changedNames returns the ids that a reload changed or should have changed.
func changedNames(change status.Change) []string {
	names := append([]string{}, slices.Concat(change.Added, change.Changed, change.Removed, change.Retried)...)
	for _, k := range change.Kept {
		names = append(names, k.ID)
	}
	for i := range names { // another node may send any text
		names[i] = console.Safe(names[i])
	}
	return names
}

// changeText renders a change with a line for each extension.
func changeText(c *console.Console, change status.Change, dryRun bool) string {
	if change.Empty() {
		return "nothing has changed"
	}
	var b strings.Builder
	verbs := []string{"added", "replaced", "removed", "retried", "kept", "changed"}
	if dryRun {
		verbs = []string{"would add", "would replace", "would remove", "would retry", "would keep", "would change"}
	}
	verb := func(colour console.Colour, i int) string {
		return c.PaintOut(colour, fmt.Sprintf("%-*s", len(verbs[1]), verbs[i]))
	}
	for i, ids := range [][]string{change.Added, change.Changed, change.Removed, change.Retried} {
		for _, id := range ids {
			fmt.Fprintf(&b, "%s %s\n", verb(console.Green, i), console.Safe(id))
		}
	}
	for _, k := range change.Kept {
		fmt.Fprintf(&b, "%s %s as it was:\n", verb(console.Yellow, 4), console.Safe(k.ID))
		for reason := range strings.SplitSeq(k.Reason, "\n") {
			fmt.Fprintln(&b, "    "+console.Safe(console.NearbyText(reason)))
		}
		if k.Next != "" {
			fmt.Fprintln(&b, "    "+console.Safe(k.Next))
		}
	}
	for _, name := range change.Policies {
		fmt.Fprintf(&b, "%s policy %s\n", verb(console.Green, 5), console.Safe(name))
	}
	for _, line := range change.Rules {
		colour := console.Green
		if strings.HasPrefix(line, "-") {
			colour = console.Red
		}
		fmt.Fprintf(&b, "    %s\n", c.PaintOut(colour, console.Safe(line)))
	}
	for _, name := range change.Clients {
		fmt.Fprintf(&b, "%s client %s\n", verb(console.Green, 5), console.Safe(name))
	}
	for _, section := range change.Restart {
		fmt.Fprintf(&b, "%s has changed and takes effect when the host is started again\n", console.Safe(section))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// notReloaded returns the error of a reload after which something does not run as its files say. broken is the number
// of broken files. node is the node that was reloaded; "" is this host.
func notReloaded(change status.Change, broken int, node string) error {
	var lines []string
	for _, d := range change.Failed {
		lines = append(lines, console.Safe(console.Nearby(d).String()))
	}
	switch {
	case len(lines) > 0:
		return &console.Error{
			Code: console.ExitExtension,
			Text: strings.Join(lines, "\n"),
			Hint: hosts.RemoteCommand("exthost status "+change.Failed[0].Extension, node),
		}
	case broken > 0:
		return &console.Error{
			Code: console.ExitInvalid,
			Text: console.Count(broken, "extension") + " cannot be used yet",
			Hint: "fix the errors above, then exthost reload",
		}
	case len(change.Kept) > 0 &&
		!slices.ContainsFunc(change.Kept, func(k status.KeptBuild) bool { return k.Next == "" }):
		return &console.Error{
			Code: console.ExitDenied,
			Text: console.Count(len(change.Kept), "extension") + " kept the previous build",
			Hint: change.Kept[0].Next,
		}
	case len(change.Kept) > 0:
		return &console.Error{
			Code: console.ExitInvalid,
			Text: console.Count(len(change.Kept), "extension") + " kept the previous build",
			Hint: hosts.RemoteCommand("fix the errors above, then exthost reload", node),
		}
	}
	return nil
}

// Restart returns exthost restart, which restarts one extension.
func Restart(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "restart ID",
		Short:       "Restart one extension, also one that has failed",
		Annotations: console.AsksHost,
		Long: "Have the host of this directory replace the processes of one extension and\n" +
			"forget its failures. Calls in flight may end first. Returns when the new process can be\n" +
			"called, or prints why it cannot. NODE.ID is an extension of another node of the cluster, whose\n" +
			"cluster.operators has to name this one.",
		Args:              console.One("the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: hosts.OnRunning(func(ctx context.Context, r *hosts.Running, args []string) error {
			s, err := r.Status(ctx)
			if err != nil {
				return err
			}
			began := time.Now()
			if node, remoteID, ok := hosts.SplitRemote(s, args[0]); ok {
				if err := r.Post(ctx, "/api/v1/extensions/"+url.PathEscape(args[0])+"/restart", nil, nil); err != nil {
					return hosts.RemoteError(node, err)
				}
				return c.Print(console.Document{
					Kind:  "extension",
					Names: args,
					Text: console.Safe(fmt.Sprintf("%s of node %s was restarted, after %s", remoteID, node,
						console.Span(time.Since(began)))),
				})
			}
			x, err := hosts.Worker(s, args[0])
			if err != nil {
				return hosts.NodeGone(s, args[0], err)
			}
			r.WarnBroken(c)
			err = r.Post(ctx, "/api/v1/extensions/"+url.PathEscape(args[0])+"/restart", nil, nil)
			if protocol.KindOf(err) == protocol.RequirementMissing {
				return &console.Error{
					Code:  console.ExitGated,
					Text:  protocol.Reason(err),
					Hint:  cmp.Or(hosts.Remedy(s, x), "exthost status "+x.ID),
					Cause: err,
				}
			}
			if err != nil {
				return err
			}
			x, err = r.Worker(ctx, args[0])
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s is %s after %s", x.ID, x.State, console.Span(time.Since(began)))
			if pid := hosts.PID(x); pid > 0 {
				text += fmt.Sprintf(", pid %d", pid)
			}
			return c.Print(console.Document{Kind: "extension", Value: x, Names: []string{x.ID}, Text: text})
		}),
	}
}
