// Package toolindex finds tools by what a user asks for: it ranks the tools of a catalog, and
// their extensions, by the words of a query.
package toolindex

import (
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// Index is an immutable index over the tools of one catalog. It is safe for concurrent use.
type Index struct {
	catalog *tools.Catalog
	parts   []*part // of each extension with tools, sorted by extension
	owners  []int32 // of each tool its part; the tools of a part follow each other
	firsts  []int32 // of each part its first tool
	words   map[string][]place
	scratch sync.Pool // of *search
}

// part is the tools of one extension. Indexes that follow each other share the parts that have
// not changed.
type part struct {
	extension   string
	description string // of the extension
	entries     []*tools.Entry
	own         map[string]float32   // how often a word is in the id and the description of the extension
	words       map[string][]posting // by word; sorted by tool
	lengths     []float32            // of each tool, in weighted words
}

// place is the part of an index that has a word.
type place struct {
	part     int32
	own      float32 // as in part.own
	postings []posting
}

// posting says how often a word is in one tool, in weighted words.
type posting struct {
	tool int32 // index in part.entries
	tf   float32
}

// The weights of the places where a word may be. A tool's name says best what it is for.
const (
	weightName        = 3
	weightTitle       = 2
	weightDescription = 1.5
	weightArgument    = 0.5 // its name
	weightArgumentDoc = 0.5
	weightID          = 6 // of the extension, in its own words
)

// Bounds of what counts of one text, and of all texts of a tool: an index keeps it for each toolset.
const (
	maxWords     = 1000
	maxWord      = 64 // bytes of a word
	maxToolWords = 2 * maxWords
)

// New returns an index over the tools of a catalog that belong to an extension. describe
// returns what an extension says of itself. prev may be nil; its parts are reused for the
// extensions whose tools and description have not changed.
func New(catalog *tools.Catalog, describe func(extension string) string, prev *Index) *Index {
	known := make(map[string]*part)
	if prev != nil {
		for _, p := range prev.parts {
			known[p.extension] = p
		}
	}
	var ids []string
	for _, e := range catalog.Entries() {
		ids = append(ids, e.Extension)
	}
	slices.Sort(ids)
	x := &Index{catalog: catalog, words: make(map[string][]place)}
	for _, id := range slices.Compact(ids) {
		if id == "" {
			continue // the host's own tools
		}
		description, entries := describe(id), catalog.Extension(id)
		p := known[id]
		if p == nil || p.description != description || !slices.Equal(p.entries, entries) {
			p = newPart(id, description, entries)
		}
		x.add(p)
	}
	return x
}

// add adds a part to x.
func (x *Index) add(p *part) {
	n, first := int32(len(x.parts)), int32(len(x.owners))
	x.parts, x.firsts = append(x.parts, p), append(x.firsts, first)
	for range p.entries {
		x.owners = append(x.owners, n)
	}
	for word, postings := range p.words {
		x.words[word] = append(x.words[word], place{n, p.own[word], postings})
	}
	for word, own := range p.own {
		if p.words[word] == nil {
			x.words[word] = append(x.words[word], place{n, own, nil})
		}
	}
}

// entry returns a tool of x.
func (x *Index) entry(tool int) *tools.Entry {
	n := x.owners[tool]
	return x.parts[n].entries[tool-int(x.firsts[n])]
}

// Of reports whether x is an index over catalog.
func (x *Index) Of(catalog *tools.Catalog) bool { return x.catalog == catalog }

func newPart(extension, description string, entries []*tools.Entry) *part {
	p := &part{
		extension:   extension,
		description: description,
		entries:     entries,
		own:         make(map[string]float32),
		words:       make(map[string][]posting),
		lengths:     make([]float32, len(entries)),
	}
	for _, word := range split(extension) {
		p.own[word] += weightID
	}
	for _, word := range split(description) {
		p.own[word] += weightDescription
	}
	for n, e := range entries {
		counts := countWords(e)
		for word, tf := range counts {
			p.words[word] = append(p.words[word], posting{int32(n), tf})
			p.lengths[n] += tf
		}
	}
	return p
}

// countWords returns how often each word is in a tool, in weighted words.
func countWords(e *tools.Entry) map[string]float32 {
	counts, left := make(map[string]float32), maxToolWords
	add := func(text string, weight float32) {
		words := split(text)
		words = words[:min(len(words), left)]
		left -= len(words)
		for _, word := range words {
			counts[word] += weight
		}
	}
	add(e.Tool, weightName)
	add(e.Title, weightTitle)
	add(withoutLabel(e), weightDescription)
	for name, schema := range rawjson.Members(rawjson.Get(e.InputSchema, "properties")) {
		if left == 0 {
			break
		}
		add(name, weightArgument)
		text, _ := rawjson.Text(rawjson.Get(schema, "description"))
		add(text, weightArgumentDoc)
	}
	return counts
}

// withoutLabel returns the description of a tool without the label that names its extension.
func withoutLabel(e *tools.Entry) string {
	return strings.TrimPrefix(strings.TrimPrefix(e.Description, "[ext:"+e.Extension+"]"), " ")
}
