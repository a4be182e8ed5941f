package toolsearch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// Bounds of the skills in an answer.
const (
	MaxSkills        = 3
	maxSkillAbstract = 300 // bytes of a description
)

// Skills is an immutable index of skills.
type Skills []skillWords

// skillWords is a skill with the weighted frequency of its words.
type skillWords struct {
	tools.FoundSkill
	words  map[string]float32
	length float32
}

// NewSkills returns an index of skills.
func NewSkills(list []tools.FoundSkill) Skills {
	x := make(Skills, len(list))
	for n, k := range list {
		x[n] = skillWords{FoundSkill: k, words: make(map[string]float32)}
		for _, of := range []struct {
			text   string
			weight float32
		}{{k.Name, weightName}, {k.Description, weightDescription}, {k.Extension, weightArgument}} {
			for _, word := range split(of.text) {
				x[n].words[word] += of.weight
				x[n].length += of.weight
			}
		}
	}
	return x
}

// Find returns the skills that match a query best, at most [MaxSkills]: those that have at least half of its words.
// visible reports whether the caller may see a skill. The answer depends on visible skills only.
func (x Skills) Find(query string, visible func(*tools.FoundSkill) bool) (found []tools.FoundSkill) {
	var shown []*skillWords
	length := float32(0)
	for n := range x {
		if visible(&x[n].FoundSkill) {
			shown, length = append(shown, &x[n]), length+x[n].length
		}
	}
	type hit struct {
		*skillWords
		score float32
		words int
	}
	hits := make([]hit, len(shown))
	all := terms(query)
	for _, t := range all {
		tf, having := make([]float32, len(shown)), 0
		for n, k := range shown {
			tf[n] = k.words[t.word]
			for _, word := range t.alike {
				tf[n] = max(tf[n], likeness*k.words[word])
			}
			if tf[n] > 0 {
				having++
			}
		}
		for n, k := range shown {
			if hits[n].skillWords = k; tf[n] == 0 {
				continue
			}
			long := saturation * (1 - lengthShare + lengthShare*k.length*float32(len(shown))/length)
			hits[n].score += rarity(having, len(shown)) * (saturation + 1) * tf[n] / (tf[n] + long)
			hits[n].words++
		}
	}
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.words == 0 || 2*h.words < len(all) })
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.URI, b.URI))
	})
	for _, h := range hits[:min(len(hits), MaxSkills)] {
		found = append(found, h.FoundSkill)
	}
	return found
}

// writeSkills writes skills that were found, one JSON object per line.
func writeSkills(b *strings.Builder, list []tools.FoundSkill) {
	if len(list) == 0 {
		return
	}
	b.WriteString("Skills (instructions; read the file at the URI with resources/read):\n")
	for _, k := range list {
		out := rawjson.AppendText([]byte(`{"kind":"skill","name":`), k.Name)
		out = rawjson.AppendText(append(out, `,"uri":`...), k.URI)
		out = rawjson.AppendText(append(out, `,"description":`...), display.Cut(k.Description, maxSkillAbstract))
		fmt.Fprintf(b, "%s}\n", out)
	}
	b.WriteByte('\n')
}
