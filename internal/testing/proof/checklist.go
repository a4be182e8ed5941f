package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var threats = page{
	name:  "threats",
	title: "Threats and their tests",
	about: "The threats of [security](../security.md#threats), which says what stops each and what is left, and the " +
		"verdict on each test that shows it. What needs root, namespaces or Landlock ran with these.",
	write: func(r *report) error { return r.checklist("docs/security.md", "Threats", "threat") },
}

var agentPlugins = page{
	name:  "agent-plugins",
	title: "The checklist of Agent Plugins",
	about: "Each item of Appendix A of Agent Plugins 1.0.0, with the verdict on its tests, as [Agent " +
		"Plugins](../agent-plugins.md#the-checklist-of-the-specification) lists them. A name such as `5.2-list` is a " +
		"package in [testdata/agent-plugins](../../testdata/agent-plugins/README.md).",
	write: func(r *report) error {
		return r.checklist("docs/agent-plugins.md", "The checklist of the specification", "item")
	},
}

// named matches the name of a test, or of a package that TestAgentPlugins reads, in a cell of a table.
var named = regexp.MustCompile("\\bTest\\w+(?:/\\w+)?|`\\d+\\.\\d[\\d.]*-[a-z0-9-]+`")

// item is a row of a checklist, with the tests that it names.
type item struct {
	text  string
	tests []string
}

// readChecklist reads the table of a section.
func readChecklist(file, section string) (items []item, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, table, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		return nil, fmt.Errorf("%s has no section %q", file, section)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		i := item{text: strings.TrimPrefix(strings.Split(line, " | ")[0], "| ")}
		for _, name := range named.FindAllString(line, -1) {
			if name[0] == '`' {
				name = "TestAgentPlugins/" + strings.Trim(name, "`")
			}
			i.tests = append(i.tests, name)
		}
		if strings.HasPrefix(line, "| ") && i.tests != nil {
			items = append(items, i)
		}
	}
	return items, nil
}

// checklist runs the tests that the table of a section names, and lists its items with their verdicts.
func (r *report) checklist(file, section, what string) error {
	items, err := readChecklist(file, section)
	if err != nil {
		return err
	}
	wanted := make(map[string]bool)
	for _, i := range items {
		for _, name := range i.tests {
			if !strings.HasPrefix(name, scripts) {
				name, _, _ = strings.Cut(name, "/")
			}
			wanted[name] = true
		}
	}
	s, err := runNamed(slices.Sorted(maps.Keys(wanted)))
	if err != nil {
		return err
	}
	passed := 0
	for _, i := range items {
		if !slices.ContainsFunc(i.tests, func(name string) bool { return s.verdict(name) != "passed" }) {
			passed++
		}
	}
	fmt.Fprintf(&r.text, "\nOf %d rows %d passed, with %d tests.\n\n", len(items), passed, len(s))
	r.table(what, "tests", "verdict")
	for _, i := range items {
		shown := make([]string, len(i.tests))
		for n, name := range i.tests {
			shown[n] = "`" + strings.TrimPrefix(name, "TestAgentPlugins/") + "`"
		}
		r.row(i.text, strings.Join(shown, ", "), r.verdicts(s, i.tests))
	}
	return nil
}

// scripts begins the names of the program's scripts. Of these only the ones that are named run.
const scripts = "TestScripts/"

// runNamed runs tests by their names, wherever they are.
func runNamed(names []string) (suite, error) {
	var tests, named []string
	for _, name := range names {
		if script, ok := strings.CutPrefix(name, scripts); ok {
			named = append(named, script)
		} else {
			tests = append(tests, name)
		}
	}
	packages, err := packagesOf(tests)
	if err != nil {
		return nil, err
	}
	env := []string{"EXTHOST_TEST=all"}
	args := append([]string{"-timeout", "30m", "-run", "^(" + strings.Join(tests, "|") + ")$"}, packages...)
	all, err := run(env, args...)
	if err != nil || named == nil {
		return all, err
	}
	pattern := "^" + scripts[:len(scripts)-1] + "$/^(" + strings.Join(named, "|") + ")$"
	more, err := run(env, "-timeout", "30m", "-run", pattern, "./cmd/exthost")
	return append(all, more...), err
}

// packagesOf returns the packages that have a test of one of the names.
func packagesOf(tests []string) ([]string, error) {
	found := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "bench/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range tests {
			if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
				found["./"+filepath.ToSlash(filepath.Dir(path))] = true
			}
		}
		return err
	})
	return slices.Sorted(maps.Keys(found)), err
}
