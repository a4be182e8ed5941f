// Package skill implements exthost skills, which shows the skills of extensions and writes them into the skills
// folders of clients.
package skill

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/status"
)

// Command returns exthost skills.
func Command(c *console.Console) *cobra.Command {
	list := &cobra.Command{
		Use:         "list",
		Short:       "List the skills of extensions",
		Annotations: console.AsksHost,
		Long: "List the skills that extensions have in their folders, as clients are served them. Skills that are\n" +
			"held back or invalid are named with the reason. Where a host runs, the skills that its MCP servers\n" +
			"declare by themselves follow.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd.Context(), c) },
	}
	show := &cobra.Command{
		Use:   "show NAME",
		Short: "Print the SKILL.md of a skill, or all that clients are told of it",
		Long: "Print the SKILL.md of a skill, with characters that a terminal would obey made visible. With\n" +
			"-o json, print its entry as clients get it: frontmatter, files, sizes and digests. NAME is that\n" +
			"of the skill, or EXTENSION/NAME where two extensions have one of that name.",
		Example: "  exthost skills show git-workflow\n  exthost skills show kit/git-workflow -o json",
		Args:    console.One("the name of a skill"),
		RunE:    func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), c, args[0]) },
	}
	cmd := console.Group("skills", "Show the skills of extensions, and write them where clients look", list, show,
		project(c))
	cmd.RunE, cmd.Annotations = list.RunE, list.Annotations // exthost skills means exthost skills list
	return cmd
}

func list(ctx context.Context, c *console.Console) error {
	s, err := listed(ctx, c)
	if err != nil {
		return err
	}
	hosts.PrintProblems(c, s)
	for _, d := range s.Diagnostics {
		if strings.HasPrefix(d.Code, "skill_") {
			c.Say(d)
		}
	}
	all, names, rows := []status.Skill{}, []string{}, [][]string{{"SKILL", "FILES", "BYTES", "DESCRIPTION"}}
	for _, x := range s.Extensions {
		for _, k := range x.Skills {
			k.Extension = x.ID
			all = append(all, k)
		}
	}
	all = append(all, declared(ctx, c)...)
	for _, k := range all {
		name, said := k.Extension+"/"+cmp.Or(k.Name, k.URI), k.Description
		if k.Held != "" {
			said = "held: " + k.Held
		}
		names = append(names, name)
		rows = append(rows, []string{name, strconv.Itoa(k.Files), console.Thousands(int(k.Bytes)), said})
	}
	if len(all) == 0 {
		c.Info("no extension has a valid skill: a skill is skills/NAME/SKILL.md in the folder of an extension")
	}
	return c.Print(console.Document{
		Kind:  "skills",
		Value: all,
		Names: names,
		Rows:  rows,
		Drop:  []string{"BYTES", "FILES"},
	})
}

// listed returns the status with the extensions whose skills are listed: those on disk, or with --host those of that
// host, which may be of another directory.
func listed(ctx context.Context, c *console.Console) (status.Status, error) {
	if c.Host == "" {
		return hosts.OnDisk(ctx, c)
	}
	r, err := hosts.Find(ctx)
	if err != nil {
		return status.Status{}, err
	}
	return r.Status(ctx)
}

// declared returns the skills that servers of the running host declare by themselves.
func declared(ctx context.Context, c *console.Console) []status.Skill {
	r, _, _ := hosts.Reach(ctx, c)
	if c.Host != "" { // whatever the configuration of this directory says
		r, _ = hosts.Find(ctx)
	}
	if r == nil {
		return nil
	}
	var answer struct {
		Skills []status.Skill
		Failed string
	}
	if err := r.Get(ctx, "/api/v1/skills", &answer); err != nil {
		answer.Failed = err.Error()
	}
	if answer.Failed != "" {
		c.Warn("%s", console.SafeText("skills of servers are missing: "+answer.Failed))
	}
	return answer.Skills
}

// found is a skill of an extension.
type found struct {
	extension string
	folder    *exthost.SkillFolder
	skills.Entry
	held string
}

func (f *found) path() string { return f.extension + "/" + f.Name }

// all returns the skills on disk, sorted by extension and name.
func all(ctx context.Context, c *console.Console) (list []found, s status.Status, err error) {
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return nil, s, err
	}
	h, err := hosts.Look(ctx, c, cfg)
	if err != nil {
		return nil, s, err
	}
	defer h.Close()
	s = h.Status()
	for id, folder := range h.Skills() {
		for _, e := range folder.Entries() {
			one := found{extension: id, folder: folder, Entry: e}
			for _, x := range s.Extensions {
				for _, k := range x.Skills {
					if x.ID == id && k.Name == e.Name {
						one.held = k.Held
					}
				}
			}
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.extension, b.extension), cmp.Compare(a.Name, b.Name))
	})
	return list, s, nil
}

// choose returns the skill of that name. command is the one to run with another name if several skills have it.
func choose(list []found, name, command string) (*found, error) {
	var hits, names []string
	var hit *found
	for i := range list {
		names = append(names, list[i].path(), list[i].Name)
		if list[i].Name == name || list[i].path() == name {
			hits, hit = append(hits, list[i].path()), &list[i]
		}
	}
	switch {
	case len(hits) > 1:
		return nil, console.Usagef(command+" "+hits[0], "%s have a skill %s: say which",
			strings.Join(hits, " and "), console.Safe(name))
	case hit != nil:
		return hit, nil
	}
	e := &console.Error{
		Code: console.ExitNotFound,
		Text: fmt.Sprintf("there is no skill %s that can be served", console.Safe(name)),
		Hint: "exthost skills list",
	}
	if near := text.Nearest(name, names); near != "" {
		e.Text += ", did you mean " + near + "?"
	}
	return nil, e
}

func show(ctx context.Context, c *console.Console, name string) error {
	list, s, err := all(ctx, c)
	if err != nil {
		return err
	}
	k, err := choose(list, name, "exthost skills show")
	if err != nil {
		hosts.PrintProblems(c, s)
		return err
	}
	if k.held != "" {
		c.Warn("%s", console.Safe(k.held))
	}
	main, err := k.folder.Content(k.Skill, k.File(skills.MainFile))
	if err != nil {
		return err
	}
	return c.Print(console.Document{
		Kind:  "skill",
		Value: k.Raw,
		Names: []string{k.URI},
		Text:  strings.TrimSuffix(console.SafeText(string(main)), "\n") + "\n",
	})
}
