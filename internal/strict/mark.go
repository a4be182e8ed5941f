package strict

// mark is where one TOML value is. Tables have fields, arrays items.
type mark struct {
	start, end int // offsets of the value, or of the first header that names a table
	fields     map[string]*mark
	keys       []markedKey
	items      []*mark
}

type markedKey struct {
	name  string
	start int
}

// field returns the mark of key in m, new when there is none.
func (m *mark) field(key markedKey, start int) *mark {
	if f := m.fields[key.name]; f != nil {
		return f
	}
	f := &mark{start: start, end: start}
	if m.fields == nil {
		m.fields = map[string]*mark{}
	}
	m.fields[key.name] = f
	m.keys = append(m.keys, key)
	return f
}

// descend follows keys down from m; of an array of tables it enters the last.
func (m *mark) descend(keys []markedKey, start int) *mark {
	for _, key := range keys {
		m = m.field(key, start)
		if len(m.items) > 0 {
			m = m.items[len(m.items)-1]
		}
	}
	return m
}

func (m *mark) add(start int) *mark {
	item := &mark{start: start, end: start}
	m.items = append(m.items, item)
	return item
}
