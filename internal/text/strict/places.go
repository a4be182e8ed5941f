package strict

// Place is where a TOML text states a value, as offsets into the text.
type Place struct {
	Key   int // offset of the last part of its key
	Start int // offset of the value; for a table, of its brace or of the first header or key that names it
	End   int // offset of what follows the value; Start for a table without braces
}

// LocateTOML returns the place of the value at keys. ok is false if there is none or data is not TOML.
func LocateTOML(data []byte, keys ...string) (p Place, ok bool) {
	src := NewSource("", data)
	n, _, bad := locate(src, Rules{}, nil)
	if bad != nil {
		return Place{}, false
	}
	for _, key := range keys {
		f := n.field(key)
		if f == nil {
			return Place{}, false
		}
		p, n = src.place(src.offset(f.Pos), f.Value), f.Value
	}
	return p, true
}

// Statement is a header of a TOML text, or a key with its value.
type Statement struct {
	Start, End int      // offsets of its lines, the last line break included
	Table      []string // keys of the header, or of the one above the key
	Key        []string // keys below Table; nil for a header
	Place      Place    // place of the value; zero for a header
}

// Statements returns the statements of a text that [TOML] accepts, in order.
func Statements(src *Source) (all []Statement) {
	_, _, _ = locate(src, Rules{}, func(s Statement) { all = append(all, s) })
	return all
}

// statement describes the statement from start to the current position. value is nil for a header.
func (l *locator) statement(start int, header, key []keyPart, value *Node) Statement {
	s := Statement{Start: l.starts[l.Pos(start).Line-1], End: len(l.Text), Table: names(header), Key: names(key)}
	if line := l.Pos(l.at).Line; line < len(l.starts) {
		s.End = l.starts[line]
	}
	if value != nil {
		s.Place = l.place(key[len(key)-1].start, value)
	}
	return s
}

// place returns the place of a located value.
func (s *Source) place(key int, value *Node) Place {
	start := s.offset(value.Pos)
	return Place{key, start, start + len(value.Text)}
}

func names(key []keyPart) (names []string) {
	for _, part := range key {
		names = append(names, part.name)
	}
	return names
}
