package dev

import (
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/toolcall"
)

// complete handles the tab key.
func (p *prompt) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	word, candidates := p.candidates(line[:pos])
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
		p.screen.say("%s", p.screen.paint(console.Dim, console.Safe(strings.Join(candidates, "  "))))
		return line, pos, true
	}
	completed := line[:pos-len(word)] + common
	return completed + line[pos:], len(completed), true
}

// candidates returns the completions of the last word of a line.
func (p *prompt) candidates(line string) (word string, candidates []string) {
	word = line[strings.LastIndexByte(line, ' ')+1:]
	var all []string
	if words := strings.Fields(line); len(words) == 0 || len(words) == 1 && word != "" {
		all = p.known()
	} else if e := p.lookup(words[0]); e != nil {
		all = toolcall.Complete(toolcall.Params(e.InputSchema), word, words[1:])
	}
	for _, c := range all {
		if strings.HasPrefix(c, word) {
			candidates = append(candidates, c)
		}
	}
	return word, candidates
}
