package edit

import "strings"

// flow is a bracketed list in TOML or in YAML's flow style.
type flow struct {
	text       string
	start, end int      // the list, brackets included
	items      [][2]int // start and end of each item
	commas     []int    // offset of the comma after each item, -1 if none
}

// readFlow finds the items of the list that begins at start. It returns false if an item is not a scalar.
func readFlow(text string, start int) (*flow, bool) {
	f := &flow{text: text, start: start}
	if start >= len(text) || text[start] != '[' {
		return nil, false
	}
	for at := start + 1; at < len(text); {
		switch c := text[at]; c {
		case ' ', '\t', '\n':
			at++
		case '#':
			at = lineEnd(text, at)
		case ',':
			if len(f.commas) == 0 || f.commas[len(f.commas)-1] >= 0 {
				return nil, false
			}
			f.commas[len(f.commas)-1] = at
			at++
		case ']':
			f.end = at + 1
			return f, true
		case '[', '{', '&', '*', '!':
			return nil, false
		default:
			end := itemEnd(text, at)
			if end < 0 || len(f.commas) > 0 && f.commas[len(f.commas)-1] < 0 { // part of """text"""
				return nil, false
			}
			f.items = append(f.items, [2]int{at, end})
			f.commas = append(f.commas, -1)
			at = end
		}
	}
	return nil, false
}

// itemEnd returns the offset after the value at at, or -1 if the value does not end.
func itemEnd(text string, at int) int {
	quote := text[at]
	if quote != '"' && quote != '\'' {
		i := strings.IndexAny(text[at:], ",]\n#")
		if i < 0 {
			return -1
		}
		return at + len(strings.TrimRight(text[at:at+i], " \t"))
	}
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return -1
}

// multiline reports whether the closing bracket is on a line of its own.
func (f *flow) multiline() bool {
	last := f.items[len(f.items)-1]
	return strings.Contains(f.text[f.start:last[0]], "\n") && strings.Contains(f.text[last[1]:f.end], "\n")
}

func (f *flow) add(item string) string {
	if len(f.items) == 0 {
		return insert(f.text, f.start+1, item)
	}
	last, comma := f.items[len(f.items)-1], f.commas[len(f.items)-1]
	if !f.multiline() {
		if comma >= 0 {
			return insert(f.text, comma+1, " "+item)
		}
		return insert(f.text, last[1], ", "+item)
	}
	from := lineStart(f.text, last[0])
	indent := f.text[from : from+len(f.text[from:])-len(strings.TrimLeft(f.text[from:], " \t"))]
	end := min(lineEnd(f.text, last[1]), f.end-1) // after a comment on the item
	if comma >= 0 {
		return insert(f.text, end, "\n"+indent+item+",")
	}
	return insert(insert(f.text, end, "\n"+indent+item), last[1], ",")
}

func (f *flow) remove(i int) string {
	from, to := f.items[i][0], f.items[i][1]
	if f.commas[i] >= 0 {
		to = f.commas[i] + 1
	}
	start, end := lineStart(f.text, from), lineEnd(f.text, to)
	rest := strings.TrimSpace(f.text[to:end])
	if strings.TrimSpace(f.text[start:from]) == "" && (rest == "" || rest[0] == '#') && end < f.end {
		return f.text[:start] + f.text[min(end+1, len(f.text)):] // the item is alone on its line
	}
	switch {
	case f.commas[i] >= 0:
		to += len(f.text[to:]) - len(strings.TrimLeft(f.text[to:], " \t"))
	case i > 0:
		from = f.commas[i-1]
	}
	return f.text[:from] + f.text[to:]
}
