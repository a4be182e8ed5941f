package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/status"
)

// ruling is what the operator says about one extension, for good.
type ruling struct {
	ID string `json:"id"`
	config.Edited
	Live   bool   `json:"live"`             // the running host has been told
	State  string `json:"state,omitempty"`  // of the extension then
	Reason string `json:"reason,omitempty"` // for anything not ready

	what string // is now the case: enabled, disabled, allowed
}

func (a *app) enableCommand() *cobra.Command {
	return a.rulingCommand("enable", "Let an extension run again that is disabled, now and from now on",
		"Take an extension out of extensions.disabled", a.enable)
}

func (a *app) disableCommand() *cobra.Command {
	return a.rulingCommand("disable", "Stop an extension, now and from now on",
		"Put an extension into extensions.disabled", a.disable)
}

func (a *app) allowCommand() *cobra.Command {
	return a.rulingCommand("allow", "Put an extension into the allowlist, now and from now on",
		"Put an extension into extensions.allowlist, if there is one: an empty allowlist allows everything,\nand is left so", a.allow)
}

func (a *app) rulingCommand(verb, short, does string, rule func(c *caseOf) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short,
		Long: does + ", in the configuration file\n" +
			"that says so or else in that of this directory, whose comments and order stay; an\n" +
			"exthost.yaml is made where there is none. The exthost that serves this directory does it\n" +
			"at once; calls in flight may end first. A server of an extension is OWNER.SERVER.",
		Args:              one("the id of an extension"),
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.caseOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return rule(c)
		},
	}
}

// caseOf is one extension, and all that the operator has said about it.
type caseOf struct {
	app     *app
	ctx     context.Context
	id      string
	owner   string // of a server; "" for others
	cfg     *config.Config
	origins *config.Origins
	running *running // nil: there is none
	broken  bool     // its manifest cannot be read
}

func (a *app) caseOf(ctx context.Context, id string) (*caseOf, error) {
	c := &caseOf{app: a, ctx: ctx, id: id}
	var err error
	if c.cfg, c.origins, err = a.load(); err != nil {
		return nil, err
	}
	if len(a.flags.extensions) > 0 {
		return nil, usagef("", "what is written into the configuration does not depend on --extensions")
	}
	if owner, _, isServer := strings.Cut(id, "."); isServer {
		c.owner = owner
	}
	if c.running, err = a.running(ctx); err != nil && exitCode(err) != exitNotFound {
		return nil, err
	}
	h, err := a.openWith(ctx, c.cfg, exthost.Options{Start: none}) // which sees what has come since the other started
	if err != nil {
		return nil, err
	}
	defer h.Close()
	s := h.Status()
	if _, err := find(s, id); err != nil {
		if c.broken = brokenManifest(s, id) != nil; !c.broken && !c.listed("disabled", id) && !c.listed("disabled", c.owner) && !c.listed("allowlist", id) {
			return nil, err
		}
	}
	return c, nil
}

func (c *caseOf) listed(key, id string) bool {
	list := c.cfg.Extensions.Disabled
	if key == "allowlist" {
		list = c.cfg.Extensions.Allowlist
	}
	return id != "" && slices.Contains(list, id)
}

// where says where a list stands.
func (c *caseOf) where(key string) string {
	return fmt.Sprintf("extensions.%s (%s)", key, nearbyPath(c.origins.Of("extensions."+key)))
}

func (a *app) disable(c *caseOf) error {
	if c.listed("disabled", c.owner) {
		return c.nothingToDo("%s is disabled already, with %s: %s", c.id, c.owner, c.where("disabled"))
	}
	return c.set("disabled", true, "disabled")
}

func (a *app) enable(c *caseOf) error {
	if !c.listed("disabled", c.id) && c.listed("disabled", c.owner) {
		return &exitError{code: exitDenied, text: fmt.Sprintf("%s is disabled with %s, whose server it is: %s", c.id, c.owner, c.where("disabled")), hint: "exthost enable " + c.owner}
	}
	return c.set("disabled", false, "enabled")
}

func (a *app) allow(c *caseOf) error {
	if len(c.cfg.Extensions.Allowlist) == 0 {
		return c.nothingToDo("there is no allowlist, so every extension may run; one that names %s would shut out all others", c.id)
	}
	if c.listed("allowlist", c.owner) {
		return c.nothingToDo("%s is allowed already, with %s: %s", c.id, c.owner, c.where("allowlist"))
	}
	return c.set("allowlist", true, "allowed")
}

func (c *caseOf) nothingToDo(format string, args ...any) error {
	_, err := fmt.Fprintln(c.app.err, safe(fmt.Sprintf(format, args...)))
	return err
}

// set writes it down, tells the running host and says what has become of it.
func (c *caseOf) set(key string, listed bool, what string) error {
	e, err := config.SetListed(c.app.loadOptions(), key, c.id, listed)
	if err != nil {
		return err
	}
	r := &ruling{ID: c.id, Edited: e, what: what}
	if c.cfg, c.origins, err = c.app.load(); err != nil {
		return err
	}
	untold := ""
	switch {
	case c.running == nil:
		untold = "from the next exthost serve on"
	case c.running.info.Scope != c.app.scope(c.cfg):
		untold = fmt.Sprintf("from its next start on: the exthost that runs here (pid %d) has another --config or --extensions", c.running.info.PID)
	default:
		if err := c.apply(r); err != nil {
			return err
		}
	}
	if err := c.app.print(document{Kind: "ruling", Value: r, Names: []string{r.ID}, Text: r.text(untold)}); err != nil {
		return err
	}
	return c.obstacle(r)
}

// apply has the running host do it.
func (c *caseOf) apply(r *ruling) error {
	if _, err := c.running.reload(c.ctx, false); err != nil {
		var exit *exitError
		if !errors.As(err, &exit) {
			err = fmt.Errorf("written to %s, and the running exthost did not take it: %w", nearbyPath(r.String()), err)
		}
		return err
	}
	s, err := c.running.status(c.ctx)
	if err != nil {
		return err
	}
	r.Live = true
	if i := slices.IndexFunc(s.Extensions, func(x status.Extension) bool { return x.ID == r.ID }); i >= 0 {
		r.State, r.Reason = s.Extensions[i].State, s.Extensions[i].Reason
	}
	return nil
}

// text says what is the case now, where that is written, and since when it holds.
func (r *ruling) text(untold string) string {
	text := r.ID + " is " + r.what
	if !r.Changed {
		text += " already"
	}
	if r.File != "" {
		text += ": " + nearbyPath(r.String())
	}
	if r.Created {
		text += ", a new file"
	}
	switch {
	case untold != "" && r.Changed:
		text += ", " + untold
	case r.Live && r.State != "" && r.State != status.StateDisabled:
		text += ", and " + r.State
	case r.Live && r.Changed && r.what == "disabled":
		text += ", and gone"
	}
	return safe(text)
}

// obstacle is what else keeps the extension from running when it is meant to.
func (c *caseOf) obstacle(r *ruling) error {
	e := &exitError{code: exitDenied}
	allowed := len(c.cfg.Extensions.Allowlist) == 0 || c.listed("allowlist", c.id) || c.listed("allowlist", c.owner)
	switch {
	case r.what == "disabled":
		return nil
	case c.listed("disabled", c.id):
		e.text, e.hint = fmt.Sprintf("%s still does not run: it is in %s", c.id, c.where("disabled")), "exthost enable "+c.id
	case c.listed("disabled", c.owner):
		e.text, e.hint = fmt.Sprintf("%s still does not run: its owner %s is in %s", c.id, c.owner, c.where("disabled")), "exthost enable "+c.owner
	case !allowed:
		e.text, e.hint = fmt.Sprintf("%s still does not run: %s does not name it", c.id, c.where("allowlist")), "exthost allow "+c.id
	case c.broken:
		e.code, e.text, e.hint = exitInvalid, c.id+" still does not run: its manifest is invalid", "exthost validate"
	case r.State == status.StateSkipped:
		e.code, e.text, e.hint = exitGated, fmt.Sprintf("%s still does not run: %s", c.id, r.Reason), "exthost info "+c.id
	case r.State == "failed":
		e.code, e.text, e.hint = exitExtension, fmt.Sprintf("%s still does not run: %s", c.id, r.Reason), "exthost info "+c.id
	default:
		return nil
	}
	return e
}
