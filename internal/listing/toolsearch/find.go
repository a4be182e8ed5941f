package toolsearch

import (
	"cmp"
	"math"
	"slices"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/tools"
)

// Bounds of a query and of its answer.
const (
	maxQuery = 1 << 10 // bytes of a query that are used
	MaxBest  = 5       // tools that an answer shows with their schemas
	MaxMore  = 10      // tools that an answer shows as signatures

	maxTerms = 24 // different words of a query that are used
)

const maxExtensions = 50

// Parameters of the ranking, tuned with the queries of testdata/tuning.txt.
const (
	saturation     = 1.2  // how soon another occurrence of a word stops counting
	lengthShare    = 0.4  // penalty of a long description
	likeness       = 0.35 // weight of a similar word
	extensionShare = 0.6  // share of the extension's score in a tool's rank
	secondShare    = 0.6  // share of the best extension's score that the second needs to be shown
)

// Find answers a query in a user's words. visible reports whether the caller may see a tool; nil: all. The answer
// is the same as from an index of the visible tools only.
func (x *Index) Find(query string, visible func(*tools.Entry) bool) tools.Found {
	s := x.begin(visible)
	defer x.scratch.Put(s)
	for _, t := range terms(query) {
		s.score(t)
	}
	return s.answer()
}

// term is a word of a query, with similar words.
type term struct {
	word  string
	alike []string
}

func terms(query string) (list []term) {
	seen := make(map[string]bool)
	for _, word := range split(display.Prefix(query, maxQuery)) {
		if seen[word] || common[word] || len(list) == maxTerms {
			continue
		}
		seen[word] = true
		list = append(list, term{word, alike[word]})
	}
	return list
}

// search is the state of one query.
type search struct {
	*Index
	tools []found // by tool
	exts  []group // by part
	hits  []int32 // tools with the current term
	stats totals
}

// totals are counts of the visible tools.
type totals struct {
	tools, extensions int
	length            float32
}

// found is the state of one tool.
type found struct {
	hidden bool
	length float32
	tf     float32 // frequency of the current term
	score  float32
}

// group is the state of one extension.
type group struct {
	visible int     // number of visible tools
	tf      float32 // frequency of the current term: the highest of its tools, or its own
	score   float32
}

// begin returns a search with all scores zero.
func (x *Index) begin(visible func(*tools.Entry) bool) *search {
	s, ok := x.scratch.Get().(*search)
	if !ok {
		s = &search{Index: x, tools: make([]found, len(x.owners)), exts: make([]group, len(x.parts))}
	}
	s.stats = totals{}
	for n, p := range x.parts {
		g := group{}
		for i, length := range p.lengths {
			f := found{hidden: visible != nil && !visible(p.entries[i]), length: length}
			if s.tools[int(x.firsts[n])+i] = f; !f.hidden {
				g.visible, s.stats.length = g.visible+1, s.stats.length+length
			}
		}
		if s.exts[n] = g; g.visible > 0 {
			s.stats.tools, s.stats.extensions = s.stats.tools+g.visible, s.stats.extensions+1
		}
	}
	return s
}

// score adds the weight of a word to each tool and extension that has it.
func (s *search) score(t term) {
	s.count(t.word, 1)
	for _, word := range t.alike {
		s.count(word, likeness)
	}
	extensions := 0
	for n := range s.exts {
		if s.exts[n].tf > 0 {
			extensions++
		}
	}
	rare := rarity(len(s.hits), s.stats.tools) * (saturation + 1)
	perLength := saturation * lengthShare * float32(s.stats.tools) / max(s.stats.length, 1)
	for _, tool := range s.hits {
		f := &s.tools[tool]
		f.score += rare * f.tf / (f.tf + saturation*(1-lengthShare) + perLength*f.length)
		f.tf = 0
	}
	rare = rarity(extensions, s.stats.extensions) * (saturation + 1)
	for n := range s.exts {
		g := &s.exts[n]
		g.score += rare * g.tf / (g.tf + saturation)
		g.tf = 0
	}
	s.hits = s.hits[:0]
}

// count counts a word in the visible tools. Of a word and its similar words, only the most frequent one counts. The
// frequency in an extension is its own or the highest of its tools.
func (s *search) count(word string, weight float32) {
	for _, p := range s.words[word] {
		g := &s.exts[p.part]
		if g.visible == 0 {
			continue
		}
		most := p.own
		of := s.tools[s.firsts[p.part]:]
		for _, posting := range p.postings {
			f := &of[posting.tool]
			if f.hidden {
				continue
			}
			if f.tf == 0 {
				s.hits = append(s.hits, s.firsts[p.part]+posting.tool)
			}
			f.tf, most = max(f.tf, posting.tf*weight), max(most, posting.tf)
		}
		g.tf = max(g.tf, most*weight)
	}
}

// rarity is the weight of a word that n of all tools or extensions have.
func rarity(n, all int) float32 {
	return float32(math.Log(1 + (float64(all-n)+0.5)/(float64(n)+0.5)))
}

func (s *search) answer() (a tools.Found) {
	first, second := s.extensions()
	best := top{most: MaxBest}
	for tool := range s.tools {
		f, n := &s.tools[tool], int(s.owners[tool])
		if !f.hidden && (f.score > 0 || n == first) {
			best.add(s.entry(tool), f.score+extensionShare*s.exts[n].score)
		}
	}
	if a.Best = best.list(); len(a.Best) == 0 {
		return tools.Found{Extensions: s.names()}
	}
	room := MaxMore
	for _, n := range []int{first, second} {
		if n >= 0 && room > 0 && s.exts[n].score >= secondShare*s.exts[first].score {
			a.More = append(a.More, s.more(n, a.Best, room))
			room -= len(a.More[len(a.More)-1].Tools)
		}
	}
	return a
}

// extensions returns the two best extensions, -1 if there is none.
func (s *search) extensions() (first, second int) {
	first, second = -1, -1
	for n := range s.exts {
		switch score := s.exts[n].score; {
		case score == 0:
		case first < 0 || score > s.exts[first].score:
			first, second = n, first
		case second < 0 || score > s.exts[second].score:
			second = n
		}
	}
	return first, second
}

// more returns at most room tools of an extension that are not in shown.
func (s *search) more(n int, shown []*tools.Entry, room int) tools.FoundGroup {
	p, rest, left := s.parts[n], top{most: room}, 0
	for i, e := range p.entries {
		if f := &s.tools[int(s.firsts[n])+i]; !f.hidden && !slices.Contains(shown, e) {
			rest.add(e, f.score)
			left++
		}
	}
	g := tools.FoundGroup{Extension: p.extension, Tools: rest.list()}
	g.Left = left - len(g.Tools)
	return g
}

// names returns the extensions with visible tools.
func (s *search) names() (ids []string) {
	for n, p := range s.parts {
		if s.exts[n].visible > 0 && len(ids) < maxExtensions {
			ids = append(ids, p.extension)
		}
	}
	return ids
}

// top keeps the best tools.
type top struct {
	most int
	hits []hit // best first
}

// hit is a tool with its score.
type hit struct {
	*tools.Entry
	score float32
}

// add adds a tool, unless enough better ones are known. Ties are broken by name.
func (t *top) add(e *tools.Entry, score float32) {
	if len(t.hits) == t.most && score < t.hits[t.most-1].score {
		return // the usual case
	}
	n, _ := slices.BinarySearchFunc(t.hits, hit{e, score}, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Name, b.Name))
	})
	if n == t.most {
		return
	}
	t.hits = slices.Insert(t.hits[:min(len(t.hits), t.most-1)], n, hit{e, score})
}

func (t *top) list() (entries []*tools.Entry) {
	for _, h := range t.hits {
		entries = append(entries, h.Entry)
	}
	return entries
}
