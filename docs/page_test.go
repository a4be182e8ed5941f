package docs_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the checkout, as seen from here.
const root = ".."

// page is one Markdown file.
type page struct {
	path   string // below root
	text   string
	blocks []block
}

// block is one fenced block of a page.
type block struct {
	line  int // of the opening fence
	lang  string
	attrs map[string]string // of the info string: key=value, or a bare key
	text  string            // ends in a newline
	shown string            // why it is only shown, "" when it is checked
}

func (b *block) has(attr string) bool { _, ok := b.attrs[attr]; return ok }

// pages returns the README and every page here.
func pages(t testing.TB) []*page {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal("no pages", err)
	}
	all := []*page{readPage(t, "README.md")}
	for _, path := range paths {
		all = append(all, readPage(t, "docs/"+path))
	}
	return all
}

func readPage(t testing.TB, path string) *page {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{path: path, text: string(data)}
	if p.blocks, err = blocksOf(p.text); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

const shownMarker = "<!-- shown: "

func blocksOf(text string) (blocks []block, err error) {
	var open *block
	before := ""
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && fence:
			open = newBlock(i+1, info)
			if reason, ok := strings.CutPrefix(before, shownMarker); ok {
				open.shown = strings.TrimSuffix(reason, " -->")
			}
		case open != nil && fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case line != "":
			before = line
		}
	}
	if open != nil {
		err = errors.New("the last block is not closed")
	}
	return blocks, err
}

func newBlock(line int, info string) *block {
	b := &block{line: line, attrs: map[string]string{}}
	for i, word := range strings.Fields(info) {
		if i == 0 {
			b.lang = word
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		b.attrs[key] = value
	}
	return b
}

// like reports whether got matches the pattern want. "…" matches any text within a line and, alone on a line, any
// number of lines. Blanks at the end of lines are ignored.
func like(want, got string) bool {
	var pattern strings.Builder
	for _, line := range lines(want) {
		if line = strings.TrimRight(line, " "); line == "…" {
			pattern.WriteString(`(.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + ` *\n`)
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(strings.TrimRight(got, "\n") + "\n")
}

func lines(s string) []string {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}
