package toolset

import (
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost/tools"
)

// skillScheme begins the URIs of skills. Skills of servers under other schemes are selected as resources are.
const skillScheme = "skill://"

// skillNames returns the names that the skill may have in which a URI of an extension lies. A skill in the extension's
// folder is at skill://{extension}/{name}. A server may put its skills at any depth, so each directory above the file
// may be the skill's. ok is false if the URI is none of a skill.
func skillNames(extension, uri string) (names []string, ok bool) {
	rest, ok := strings.CutPrefix(uri, skillScheme)
	if !ok {
		return nil, false
	}
	names = strings.Split(rest, "/")
	for i, name := range names {
		if plain, err := url.PathUnescape(name); err == nil {
			names[i] = plain
		}
	}
	if names[0] == extension && len(names) > 1 && names[1] != "SKILL.md" {
		return names[1:2], true
	}
	return names[:len(names)-1], true
}

// selectsSkill reports whether the patterns for skills show the skill in which a URI lies. is is false if there are no
// such patterns, or if the URI is none of a skill: then it is a resource like any other.
func (v *View) selectsSkill(extension, uri string) (shown, is bool) {
	if len(v.skills) == 0 {
		return false, false
	}
	names, is := skillNames(extension, uri)
	return slices.ContainsFunc(names, v.admitsSkill), is
}

func (v *View) admitsSkill(name string) bool {
	return slices.ContainsFunc(v.skills, func(p pattern) bool { return p.matches(name) })
}

// showsSkill reports whether the toolset shows a resource that its patterns for skills select: every reading of the URI
// is selected, and none excluded.
func (v *View) showsSkill(extension, uri string) bool {
	all, ok := readings(uri)
	return ok && !slices.ContainsFunc(all, func(reading string) bool {
		shown, is := v.selectsSkill(extension, reading)
		without, _, _ := strings.Cut(reading, "#")
		return !shown || !is || v.excludes(tools.ResourceName(extension, reading)) ||
			v.excludes(tools.ResourceName(extension, without))
	})
}

// eachUnmatchedSkill calls report for each pattern that matches no skill. An absent extension, and one whose server
// serves skills, may have skills of any name.
func eachUnmatchedSkill(patterns []pattern, all []Extension, report func(pattern string)) {
	for _, p := range patterns {
		if !slices.ContainsFunc(all, func(x Extension) bool {
			return x.OtherSkills || x.Absent || slices.ContainsFunc(x.Skills, p.matches)
		}) {
			report(p.text)
		}
	}
}

// mayShowSkills reports whether the patterns for skills may show one of the extension.
func (v *View) mayShowSkills(x Extension) bool {
	return len(v.skills) > 0 && (x.OtherSkills || slices.ContainsFunc(x.Skills, v.admitsSkill))
}
