package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

var firstCell = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// cells returns the code in the first column of the tables of a page's section.
func cells(p *page, heading string) (list []string) {
	_, section, _ := strings.Cut(p.text, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range firstCell.FindAllStringSubmatch(section, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestEveryKindHasItsAdvice(t *testing.T) {
	var want []string
	for _, k := range protocol.Kinds() {
		want = append(want, string(k))
	}
	if diff := cmp.Diff(want, cells(readPage(t, "docs/errors.md"), "At 3 a.m.")); diff != "" {
		t.Errorf("docs/errors.md (-protocol.Kinds +page):\n%s", diff)
	}
}

// evidence is a line or a file of another project, as it was at a commit.
var evidence = regexp.MustCompile(`^https://github\.com/[\w.-]+/[\w.-]+/blob/[0-9a-f]{40}/[^#]+(#L\d+(-L\d+)?)?$`)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestLinks(t *testing.T) {
	all := slices.Concat(pages(t), proofs(t), []*page{readPage(t, "AGENTS.md"), readPage(t, "CHANGELOG.md")})
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(p.text, ""), -1) {
			if p.path == "docs/comparison.md" && evidence.MatchString(m[1]) {
				continue
			}
			u, err := url.Parse(m[1])
			if err != nil || u.Scheme != "" {
				t.Errorf("%s: %s is not a link within the checkout", p.path, m[1])
				continue
			}
			target := filepath.Join(filepath.Dir(p.path), u.Path)
			if u.Path == "" {
				target = p.path
			}
			text, err := os.ReadFile(filepath.Join(root, target))
			if info, statErr := os.Stat(filepath.Join(root, target)); statErr != nil || err != nil && !info.IsDir() {
				t.Errorf("%s: there is no %s", p.path, target)
			}
			if u.Fragment != "" && !slices.Contains(anchors(string(text)), u.Fragment) {
				t.Errorf("%s: %s has no heading #%s", p.path, target, u.Fragment)
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns what a page's headings can be linked to by.
func anchors(text string) (list []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		anchor := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		list = append(list, regexp.MustCompile(`[^\w-]`).ReplaceAllString(anchor, ""))
	}
	return list
}

// TestNothingIsOnlyShown keeps the exceptions few and explained.
func TestNothingIsOnlyShown(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.shown != "" {
				t.Logf("%s:%d is only shown: %s", p.path, b.line, b.shown)
			}
		}
	}
	if n := len(lines(readPage(t, "AGENTS.md").text)); n >= 60 {
		t.Errorf("AGENTS.md has %d lines, and is for those who read it every time", n)
	}
}

// TestEveryThreatHasItsTest finds each test that docs/security.md names.
func TestEveryThreatHasItsTest(t *testing.T) {
	names := regexp.MustCompile(`\bTest\w+(/\w+)?`).FindAllString(readPage(t, "docs/security.md").text, -1)
	if len(names) < 10 {
		t.Fatal("docs/security.md names no tests")
	}
	known := tests(t)
	for _, name := range names {
		test, script, _ := strings.Cut(name, "/")
		if _, err := os.Stat(filepath.Join(root, "cmd/exthost/testdata", script+".txtar")); !known[test] ||
			script != "" && err != nil {
			t.Errorf("docs/security.md names %s, and there is no such test", name)
		}
	}
}

// TestEveryRuleOfAgentPluginsHasItsTest finds each test and each package that docs/agent-plugins.md names.
func TestEveryRuleOfAgentPluginsHasItsTest(t *testing.T) {
	text, known := readPage(t, "docs/agent-plugins.md").text, tests(t)
	names := regexp.MustCompile(`\bTest\w+`).FindAllString(text, -1)
	for _, name := range names {
		if !known[name] {
			t.Errorf("docs/agent-plugins.md names %s, and there is no such test", name)
		}
	}
	packages := regexp.MustCompile("`(\\d+\\.\\d[\\d.]*-[a-z0-9-]+)`").FindAllStringSubmatch(text, -1)
	for _, m := range packages {
		if _, err := os.Stat(filepath.Join(root, "testdata/agent-plugins", m[1]+".json")); err != nil {
			t.Errorf("docs/agent-plugins.md names the package %s: %v", m[1], err)
		}
	}
	if len(names) < 10 || len(packages) < 50 {
		t.Errorf("docs/agent-plugins.md names %d tests and %d packages", len(names), len(packages))
	}
}

// tests are the names of all tests.
func tests(t *testing.T) map[string]bool {
	known := map[string]bool{}
	for _, path := range sources(t, "_test.go") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			known[string(m[1])] = true
		}
	}
	return known
}

// sources are the files of the repository that end so.
func sources(t *testing.T, ending string) (paths []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ending) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
