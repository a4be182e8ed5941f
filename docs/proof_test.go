package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proofs are the pages that internal/testing/proof writes.
func proofs(t testing.TB) (all []*page) {
	t.Helper()
	paths, err := filepath.Glob("proof/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal("no proof", err)
	}
	for _, path := range paths {
		all = append(all, readPage(t, "docs/"+path))
	}
	return all
}

var (
	madeBy = regexp.MustCompile("(?m)^Made by `go run ./internal/testing/proof ([a-z-]+)` on \\d{4}-\\d\\d-\\d\\d, " +
		"of commit [0-9a-f]{12}( with changes)?, on .+\\.$")
	tableRule = regexp.MustCompile(`(?m)^\| ?---`)
	figure    = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)
	// noFigure matches what has digits and is no figure: code, addresses and versions.
	noFigure = regexp.MustCompile("`[^`]+`|<[^>]+>|\\b(?:Go|Python|MCP|Apache) [\\d.-]+")
)

// TestProofs holds the pages of docs/proof against the tests there are: each says what made it, of what and where, and
// names only tests of this checkout.
func TestProofs(t *testing.T) {
	known := tests(t)
	for _, p := range proofs(t) {
		if !strings.HasPrefix(p.text, "# ") || !tableRule.MatchString(p.text) {
			t.Errorf("%s has no title, or no table", p.path)
		}
		m := madeBy.FindStringSubmatch(p.text)
		if m == nil || m[1]+".md" != filepath.Base(p.path) {
			t.Errorf("%s does not say what made it: %q", p.path, m)
		}
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(p.text, -1) {
			if !known[name] {
				t.Errorf("%s names %s, and there is no such test", p.path, name)
			}
		}
		if strings.Contains(p.text, "/tmp/") {
			t.Errorf("%s names files of the machine that made it", p.path)
		}
	}
}

// TestFiguresOfTheREADMEAreProved finds each figure of the README on the page of docs/proof that its paragraph begins
// with. Where it begins with none, there may be no figure.
func TestFiguresOfTheREADMEAreProved(t *testing.T) {
	checked := 0
	text := strings.ReplaceAll(code.ReplaceAllString(readPage(t, "README.md").text, ""), "\n- ", "\n\n- ")
	for item := range strings.SplitSeq(text, "\n\n") {
		m := regexp.MustCompile(`^- \[[^]]+\]\((docs/proof/[a-z-]+\.md)\)`).FindStringSubmatch(strings.TrimSpace(item))
		if m == nil {
			prose := noFigure.ReplaceAllString(link.ReplaceAllString(item, ""), "")
			for _, number := range figure.FindAllString(prose, -1) {
				t.Errorf("README.md says %s, and names no page of docs/proof that does: %s", number, item)
			}
			continue
		}
		proof := readPage(t, m[1]).text
		for _, number := range figure.FindAllString(link.ReplaceAllString(item, ""), -1) {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(number) + `\b`).MatchString(proof) {
				t.Errorf("README.md says %s, and %s does not: %s", number, m[1], item)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("the README has no figure with a proof")
	}
}
