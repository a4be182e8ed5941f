package operate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Enable returns exthost enable, which lets an extension run that the configuration disables or does not allow.
func Enable(c *console.Console) *cobra.Command {
	cmd := ruleCommand(c, "enable", "Let a disabled extension run again (persists)",
		"Take an extension out of extensions.disabled, and put it into extensions.allowlist if that list is there\n"+
			"and does not name it", (*subject).enable)
	cmd.SuggestFor = []string{"allow", "start"}
	return cmd
}

// Disable returns exthost disable, which stops an extension.
func Disable(c *console.Console) *cobra.Command {
	return ruleCommand(c, "disable", "Stop an extension (persists)",
		"Put an extension into extensions.disabled", (*subject).disable)
}

// ruleCommand returns a command that changes a list in the configuration.
func ruleCommand(c *console.Console, verb, short, does string, rule func(x *subject, ctx context.Context) error,
) *cobra.Command {
	return &cobra.Command{
		Use:         verb + " ID",
		Short:       short,
		Annotations: console.AsksHost,
		Long: does + ".\n" +
			"The command edits the file of --config. Without that flag it edits the configuration file " +
			"that states the list, else the file of this directory, and makes exthost.yaml if there is " +
			"none. Comments and order stay. The host of this directory that runs with the same --config " +
			"applies the change at once; calls in flight may end first. A server of an extension is " +
			"OWNER.SERVER. NODE.ID is an extension of another node of the cluster, whose cluster.operators " +
			"has to name this one.",
		Args:              console.One("the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if done, err := ruleRemote(cmd.Context(), c, verb, args[0]); done {
				return err
			}
			x, err := subjectOf(cmd.Context(), c, verb, args[0])
			if err != nil {
				return err
			}
			return rule(x, cmd.Context())
		},
	}
}

// ruleRemote makes another node enable or disable its own extension if id is NODE.ID. If done is false, the change is
// to be made here.
func ruleRemote(ctx context.Context, c *console.Console, verb, id string) (done bool, _ error) {
	r, err := hosts.Find(ctx)
	if err == nil && r.Apart {
		return true, ruleApart(ctx, c, r, verb, id)
	}
	if err != nil || !strings.Contains(id, ".") {
		return false, nil
	}
	s, err := r.Status(ctx)
	if err != nil {
		return false, nil // a change of the configuration file does not need the host
	}
	node, remoteID, ok := hosts.SplitRemote(s, id)
	if !ok {
		return false, nil
	}
	if err := r.Post(ctx, "/api/v1/extensions/"+url.PathEscape(id)+"/"+verb, nil, nil); err != nil {
		return true, hosts.RemoteError(node, err)
	}
	return true, c.Print(console.Document{
		Kind:  "ruling",
		Value: map[string]string{"id": id},
		Names: []string{id},
		Text:  console.Safe(fmt.Sprintf("%s of node %s is %sd", remoteID, node, verb)),
	})
}

// ruleApart makes a host that uses other configuration files than this command enable or disable an extension.
func ruleApart(ctx context.Context, c *console.Console, r *hosts.Running, verb, id string) error {
	if err := r.Post(ctx, "/api/v1/extensions/"+url.PathEscape(id)+"/"+verb, nil, nil); err != nil {
		return err
	}
	return c.Print(console.Document{
		Kind:  "ruling",
		Value: map[string]string{"id": id},
		Names: []string{id},
		Text:  console.Safe(fmt.Sprintf("%s is %sd by the host with pid %d", id, verb, r.Info.PID)),
	})
}

// subject is the extension that a command is about, and the configuration for it.
type subject struct {
	console *console.Console
	id      string
	owner   string // the extension of a server; "" for an extension
	cfg     *config.Config
	origins *config.Origins
	running *hosts.Running // nil: no host runs
	broken  bool           // its manifest cannot be read

	allowlist *config.Edited // the change of the allowlist; nil: none
}

func subjectOf(ctx context.Context, c *console.Console, command, id string) (*subject, error) {
	x := &subject{console: c, id: id}
	var err error
	if x.cfg, x.origins, err = hosts.Load(c); err != nil {
		return nil, err
	}
	if len(c.Extensions) > 0 {
		return nil, console.Usagef("", "what is written into the configuration does not depend on --extensions")
	}
	if owner, isServer := manifest.OwnerOf(id); isServer {
		x.owner = owner
	}
	if x.running, err = hosts.Find(ctx); err != nil && console.ExitCode(err) != console.ExitNotFound {
		return nil, err
	}
	if x.running != nil {
		s, err := x.running.Status(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.NotHere(id, command); err != nil {
			return nil, err
		}
	}
	h, err := hosts.Look(ctx, c, x.cfg) // to find extensions that the running host has not loaded yet
	if err != nil {
		return nil, err
	}
	defer h.Close()
	s := h.Status()
	if _, err := hosts.Extension(s, id); err != nil {
		if x.broken = hosts.BrokenManifest(s, id) != nil; !x.broken && !x.listed("disabled", id) &&
			!x.listed("disabled", x.owner) && !x.listed("allowlist", id) {
			return nil, err
		}
	}
	return x, nil
}

func (x *subject) listed(key, id string) bool {
	list := x.cfg.Extensions.Disabled
	if key == "allowlist" {
		list = x.cfg.Extensions.Allowlist
	}
	return id != "" && slices.Contains(list, id)
}

// where returns which key of the configuration is the list, and where the key is stated.
func (x *subject) where(key string) string {
	return fmt.Sprintf("extensions.%s (%s)", key, console.NearbyPath(x.origins.Of("extensions."+key)))
}

func (x *subject) disable(ctx context.Context) error {
	if x.listed("disabled", x.owner) {
		return x.nothingToDo("%s is disabled already, with %s: %s", x.id, x.owner, x.where("disabled"))
	}
	return x.set(ctx, "disabled", true, "disabled")
}

func (x *subject) enable(ctx context.Context) error {
	if !x.listed("disabled", x.id) && x.listed("disabled", x.owner) {
		return &console.Error{
			Code: console.ExitDenied,
			Text: fmt.Sprintf("%s is disabled with %s, whose server it is: %s", x.id, x.owner, x.where("disabled")),
			Hint: "exthost enable " + x.owner,
		}
	}
	if !x.allowed() {
		e, err := hosts.SetListed(x.console, "allowlist", x.id, true)
		if err != nil {
			return err
		}
		x.allowlist = &e
	}
	return x.set(ctx, "disabled", false, "enabled")
}

// allowed reports whether the allowlist lets the extension run. An empty one allows everything.
func (x *subject) allowed() bool {
	return len(x.cfg.Extensions.Allowlist) == 0 || x.listed("allowlist", x.id) || x.listed("allowlist", x.owner)
}

func (x *subject) nothingToDo(format string, args ...any) error {
	_, err := fmt.Fprintln(x.console.Err, console.Safe(fmt.Sprintf(format, args...)))
	return err
}

// ruling is the output of a command that changes a list.
type ruling struct {
	ID string `json:"id"`
	config.Edited
	// the change of the allowlist that enabling needed; nil: none
	Allowlist *config.Edited `json:"allowlist,omitempty"`

	Live   bool   `json:"live"`             // the running host has applied it
	State  string `json:"state,omitempty"`  // the extension's state in that host
	Reason string `json:"reason,omitempty"` // why it is not ready

	result string // enabled or disabled
}

// set changes the configuration, applies it in the running host and prints the result.
func (x *subject) set(ctx context.Context, key string, listed bool, result string) error {
	e, err := hosts.SetListed(x.console, key, x.id, listed)
	if err != nil {
		return err
	}
	r := &ruling{ID: x.id, Edited: e, Allowlist: x.allowlist, result: result}
	if x.cfg, x.origins, err = hosts.Load(x.console); err != nil {
		return err
	}
	later := ""
	switch {
	case x.running == nil:
		later = "from the next exthost serve on"
	case x.running.Info.Scope != hosts.Scope(x.console, x.cfg):
		later = fmt.Sprintf("from its next start on: the host that runs here (pid %d) has another --config or "+
			"--extensions", x.running.Info.PID)
	default:
		if err := x.apply(ctx, r); err != nil {
			return err
		}
	}
	if err := x.console.Print(console.Document{
		Kind:  "ruling",
		Value: r,
		Names: []string{r.ID},
		Text:  r.text(later),
	}); err != nil {
		return err
	}
	return x.obstacle(r)
}

// apply reloads the extension in the running host, and nothing else that has changed.
func (x *subject) apply(ctx context.Context, r *ruling) error {
	if _, err := reload(ctx, x.running, url.Values{"only": {x.id}}); err != nil {
		if _, ok := errors.AsType[*console.Error](err); !ok {
			err = fmt.Errorf("written to %s, but the running host did not apply it: %w", console.NearbyPath(r.String()),
				err)
		}
		return err
	}
	s, err := x.running.Status(ctx)
	if err != nil {
		return err
	}
	r.Live = true
	if i := slices.IndexFunc(s.Extensions, func(x status.Extension) bool { return x.ID == r.ID }); i >= 0 {
		r.State, r.Reason = s.Extensions[i].State, s.Extensions[i].Reason
	}
	return nil
}

// text renders the result, the file that was changed, and whether the change is in force already.
func (r *ruling) text(later string) string {
	text := r.ID + " is " + r.result
	changed := r.Changed || r.Allowlist != nil
	if !changed {
		text += " already"
	}
	if r.File != "" {
		text += ": " + console.NearbyPath(r.String())
	}
	if r.Created {
		text += ", a new file"
	}
	if r.Allowlist != nil {
		text += ", and in extensions.allowlist: " + console.NearbyPath(r.Allowlist.String())
	}
	switch {
	case later != "" && changed:
		text += ", " + later
	case r.Live && r.State != "" && r.State != status.StateDisabled:
		text += ", and " + r.State
	case r.Live && r.Changed && r.result == "disabled":
		text += ", and gone"
	}
	return console.Safe(text)
}

// obstacle returns an error if the extension should run but does not, unless the changed list is the reason.
func (x *subject) obstacle(r *ruling) error {
	if r.result == "disabled" {
		return nil
	}
	fail := func(code int, hint, format string, args ...any) error {
		return &console.Error{
			Code: code,
			Text: x.id + " still does not run: " + fmt.Sprintf(format, args...),
			Hint: hint,
		}
	}
	switch {
	case x.listed("disabled", x.id):
		return fail(console.ExitDenied, "exthost enable "+x.id, "it is in %s", x.where("disabled"))
	case x.listed("disabled", x.owner):
		return fail(console.ExitDenied, "exthost enable "+x.owner, "its owner %s is in %s", x.owner,
			x.where("disabled"))
	case !x.allowed():
		return fail(console.ExitDenied, "add it to that list", "%s does not name it", x.where("allowlist"))
	case x.broken:
		return fail(console.ExitInvalid, "exthost validate", "its manifest is invalid")
	case r.State == status.StateUntrusted:
		return fail(console.ExitDenied, "exthost trust "+x.id, "%s", r.Reason)
	case r.State == status.StateSkipped:
		return fail(console.ExitGated, "exthost status "+x.id, "%s", r.Reason)
	case r.State == string(supervisor.Failed):
		return fail(console.ExitExtension, "exthost status "+x.id, "%s", r.Reason)
	}
	return nil
}
