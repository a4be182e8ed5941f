package main

import (
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/tools"
)

// complete is the tab key.
func (d *dev) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	word, candidates := d.candidates(line[:pos])
	if len(candidates) == 0 {
		return line, pos, true
	}
	common := candidates[0]
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	if len(candidates) == 1 && !strings.HasSuffix(common, "=") {
		common += " "
	}
	if common == word {
		d.say("%s", d.paint(dim, safe(strings.Join(candidates, "  "))))
		return line, pos, true
	}
	completed := line[:pos-len(word)] + common
	return completed + line[pos:], len(completed), true
}

// candidates are what the last word of a line may become.
func (d *dev) candidates(line string) (word string, candidates []string) {
	word = line[strings.LastIndexByte(line, ' ')+1:]
	var all []string
	if words := strings.Fields(line); len(words) == 0 || len(words) == 1 && word != "" {
		for _, e := range d.host.Tools().Entries() {
			all = append(all, e.Tool)
		}
		for _, w := range devWords {
			all = append(all, w.word)
		}
	} else if e := d.lookup(words[0]); e != nil {
		all = argumentsFor(e, word, words[1:])
	}
	for _, c := range all {
		if strings.HasPrefix(c, word) {
			candidates = append(candidates, c)
		}
	}
	return word, candidates
}

// argumentsFor are the keys that a call lacks, or the values of the one in the word.
func argumentsFor(e *tools.Entry, word string, given []string) (all []string) {
	key, _, hasValue := strings.Cut(word, "=")
	for name, property := range rawjson.Members(rawjson.Get(e.InputSchema, "properties")) {
		switch {
		case hasValue && name == key:
			for _, choice := range choicesOf(property) {
				all = append(all, name+"="+choice)
			}
			t := typer{root: e.InputSchema}
			if slices.Contains(t.types(property, 0), "boolean") {
				all = append(all, name+"=true", name+"=false")
			}
		case !hasValue && !slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, name+"=") }):
			all = append(all, name+"=")
		}
	}
	return all
}
