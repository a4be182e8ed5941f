package redact

import (
	"slices"
	"strings"
)

// automaton finds keywords of either case in one pass (Aho-Corasick).
type automaton struct {
	class      [256]uint16 // column of next for each byte; upper and lower case share one
	width      uint32      // number of columns
	next       []uint32    // transitions by state and class; a state is the index of its row
	found      [][]keyword // by row: the keywords that end in the state
	firstFinal uint32      // the first state that ends a keyword
}

type keyword struct {
	rule *rule
	size int
}

// newAutomaton returns an automaton for the keywords of rules.
func newAutomaton(rules []*rule) *automaton {
	a := &automaton{width: 1}
	for _, r := range rules {
		for _, k := range r.Keywords {
			for _, c := range []byte(strings.ToLower(k)) {
				if a.class[c] == 0 {
					a.class[c] = uint16(a.width)
					a.width++
				}
				if c-'a' < 26 {
					a.class[c-'a'+'A'] = a.class[c]
				}
			}
		}
	}
	a.addState()
	for _, r := range rules {
		for _, k := range r.Keywords {
			a.add(strings.ToLower(k), r)
		}
	}
	a.link()
	a.sort()
	return a
}

func (a *automaton) addState() uint32 {
	a.next = append(a.next, make([]uint32, a.width)...)
	a.found = append(a.found, nil)
	return uint32(len(a.next)) - a.width
}

// add inserts a keyword into the trie. 0, the root, marks a missing transition.
func (a *automaton) add(word string, r *rule) {
	state := uint32(0)
	for _, c := range []byte(word) {
		edge := state + uint32(a.class[c])
		if a.next[edge] == 0 {
			to := a.addState()
			a.next[edge] = to
		}
		state = a.next[edge]
	}
	a.found[state/a.width] = append(a.found[state/a.width], keyword{r, len(word)})
}

// link adds the failure transitions: a missing transition is copied from the longest proper suffix that is a
// state.
func (a *automaton) link() {
	suffix := make([]uint32, len(a.found))
	var queue []uint32
	for c := range a.width {
		if to := a.next[c]; to != 0 {
			queue = append(queue, to)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		state := queue[0]
		shorter := suffix[state/a.width]
		a.found[state/a.width] = append(a.found[state/a.width], a.found[shorter/a.width]...)
		for c := range a.width {
			to := a.next[state+c]
			if to == 0 {
				a.next[state+c] = a.next[shorter+c]
				continue
			}
			suffix[to/a.width] = a.next[shorter+c]
			queue = append(queue, to)
		}
	}
}

// sort moves the states that end a keyword to the end, so that one comparison identifies them.
func (a *automaton) sort() {
	order := make([]int, len(a.found))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return min(1, len(a.found[i])) - min(1, len(a.found[j])) })
	place := make([]uint32, len(order))
	sorted := automaton{class: a.class, width: a.width}
	for row, old := range order {
		place[old] = uint32(row) * a.width
		if len(a.found[old]) == 0 {
			sorted.firstFinal = uint32(row+1) * a.width
		}
	}
	for _, old := range order {
		for c := range a.width {
			sorted.next = append(sorted.next, place[a.next[uint32(old)*a.width+c]/a.width])
		}
		sorted.found = append(sorted.found, a.found[old])
	}
	*a = sorted
}

// scan reads text[i:] from state up to the end of a keyword. It returns the index after the keyword, and the state,
// whose keywords are found[state/width]. At the end of text the state is 0.
func (a *automaton) scan(text []byte, i int, state uint32) (int, uint32) {
	next, firstFinal := a.next, a.firstFinal
	for ; i < len(text); i++ {
		state = next[state+uint32(a.class[text[i]])]
		if state >= firstFinal {
			return i + 1, state
		}
	}
	return i, 0
}
