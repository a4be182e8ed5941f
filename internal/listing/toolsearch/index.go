// Package toolsearch decides whether a client is listed all tools or a search, and answers searches: it ranks the
// tools of a catalog, and their extensions, by the words of a query.
package toolsearch

import (
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// Index is an immutable index of the tools of one catalog. It is safe for concurrent use.
type Index struct {
	catalog *tools.Catalog
	parts   []*part // one per extension with tools, sorted by extension
	owners  []int32 // the part of each tool; the tools of a part are adjacent
	firsts  []int32 // the first tool of each part
	words   map[string][]place
	scratch sync.Pool // of *search
}

// part is the index of one extension's tools. Successive indexes share unchanged parts.
type part struct {
	extension   string
	description string // of the extension
	entries     []*tools.Entry
	own         map[string]float32   // frequency of words in the id and the description of the extension
	words       map[string][]posting // by word, sorted by tool
	lengths     []float32            // of each tool, in weighted words
}

// place is a part that has a word.
type place struct {
	part     int32
	own      float32 // as in part.own
	postings []posting
}

// posting is the weighted frequency of a word in one tool.
type posting struct {
	tool int32 // index in part.entries
	tf   float32
}

// Weights of the places of a word. The name of a tool is the best hint at its purpose.
const (
	weightName        = 3
	weightTitle       = 2
	weightDescription = 1.5
	weightArgument    = 0.5 // argument name
	weightArgumentDoc = 0.5
	weightID          = 6 // id of the extension
)

// Bounds of the indexed words, because there is an index per toolset.
const (
	maxWords     = 1000
	maxWord      = 64 // bytes of one word
	maxToolWords = 2 * maxWords
)

// New returns an index of the tools of a catalog that belong to extensions. describe returns the description of
// an extension. The parts of prev, which may be nil, are reused for extensions whose tools and description have
// not changed.
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

// countWords returns the weighted frequency of each word in a tool.
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
	add(ownName(e), weightName)
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

// ownName returns the name of a tool without what names its extension. A toolset may show another one.
func ownName(e *tools.Entry) string {
	if rest := strings.TrimPrefix(e.Registered(), "ext_"); strings.HasSuffix(e.Name, rest) {
		return e.Tool
	}
	return e.Name
}

// withoutLabel returns the description of a tool without the label that names its extension.
func withoutLabel(e *tools.Entry) string {
	return strings.TrimPrefix(strings.TrimPrefix(e.Description, "[ext:"+e.Extension+"]"), " ")
}
