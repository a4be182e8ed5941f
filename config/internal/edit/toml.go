package edit

import (
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/exthost/exthost/internal/text/strict"
)

func addTOML(text, section, key, item string) (string, error) {
	within := strings.Split(section, ".")
	if list, ok := strict.LocateTOML([]byte(text), append(within, key)...); ok {
		f, simple := readFlow(text, list.Start)
		if !simple {
			return "", byHand(section, key)
		}
		return f.add(item), nil
	}
	line := key + " = [" + item + "]"
	header := regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*` + regexp.QuoteMeta(section) + `[ \t]*\][ \t]*(#.*)?$`)
	if at := header.FindStringIndex(text); at != nil {
		return insertBelow(text, at[0], line), nil
	}
	table, ok := strict.LocateTOML([]byte(text), within...)
	switch {
	case !ok:
		return appended(text, "["+section+"]\n"+line+"\n"), nil
	case text[table.Start] == '{':
		return intoInline(text, table, line), nil
	case text[table.Start] == '[': // a subtable
		return insert(text, lineStart(text, table.Start), "["+section+"]\n"+line+"\n\n"), nil
	}
	return insertBelow(text, table.Start, section+"."+line), nil // beside other dotted keys
}

func removeTOML(text, section, key, value string) (string, error) {
	list, _ := strict.LocateTOML([]byte(text), append(strings.Split(section, "."), key)...)
	f, simple := readFlow(text, list.Start)
	if !simple {
		return "", byHand(section, key)
	}
	i := slices.IndexFunc(f.items, func(span [2]int) bool {
		var doc struct{ V string }
		return toml.Unmarshal([]byte("V = "+text[span[0]:span[1]]), &doc) == nil && doc.V == value
	})
	if i < 0 {
		return "", byHand(section, key)
	}
	return f.remove(i), nil
}

func linesTOML(t *Table) string {
	path := make([]string, len(t.Path))
	for i, key := range t.Path {
		path[i] = bare(key)
	}
	text := "[" + strings.Join(path, ".") + "]\n"
	for _, s := range t.stated() {
		text += t.file.inline([]Setting{s}) + "\n"
	}
	return text
}

func (t *Table) locate(text string, keys ...string) (p strict.Place, ok bool) {
	return strict.LocateTOML([]byte(text), append(t.Path[:len(t.Path):len(t.Path)], keys...)...)
}

func setTOML(text string, t *Table) (string, bool) {
	if _, ok := t.locate(text); !ok {
		return addTableTOML(text, t), true
	}
	for _, s := range t.Set {
		doc, err := t.file.read([]byte(text))
		if err != nil {
			return "", false
		}
		now, stated := t.valueOf(doc, s.Key)
		at, found := t.locate(text, s.Key)
		ok := true
		switch {
		case found != stated:
			return "", false
		case !stated && s.Value != nil:
			text, ok = t.insertTOML(text, s)
		case stated && s.Value == nil:
			text = cutTOML(text, at)
		case stated:
			text, ok = t.replaceTOML(text, at, now, s.Value)
		}
		if !ok {
			return "", false
		}
	}
	return text, true
}

// replaceTOML replaces the value now of a key, which is at at.
func (t *Table) replaceTOML(text string, at strict.Place, now, value any) (string, bool) {
	before, wasText := now.(string)
	if _, isText := value.(string); wasText && isText {
		return replaced(text, at.Start, before, t.file.literal(value))
	}
	return text[:at.Start] + t.file.literal(value) + text[at.End:], at.End > at.Start // no table below a header
}

// addTableTOML adds the table inside the inline table around it, else at the end of the file.
func addTableTOML(text string, t *Table) string {
	for n := len(t.Path) - 1; n > 0; n-- {
		table, ok := strict.LocateTOML([]byte(text), t.Path[:n]...)
		if !ok || text[table.Start] != '{' {
			continue
		}
		member := "{ " + t.file.inline(t.stated()) + " }"
		for i := len(t.Path) - 1; i >= n; i-- {
			if member = bare(t.Path[i]) + " = " + member; i > n {
				member = "{ " + member + " }"
			}
		}
		return intoInline(text, table, member)
	}
	return appended(text, linesTOML(t))
}

// insertTOML adds a key to an existing table: after another key of t.Set that the table has, else as the first.
func (t *Table) insertTOML(text string, s Setting) (string, bool) {
	line := t.file.inline([]Setting{s})
	for _, other := range t.Set {
		at, ok := t.locate(text, other.Key)
		if !ok {
			continue
		}
		prefix := text[lineStart(text, at.Key):at.Key]
		if strings.Contains(prefix, "{") {
			break
		}
		return insertBelow(text, at.End, prefix+line), true // the prefix indents, or names the parent keys
	}
	table, ok := t.locate(text)
	switch {
	case !ok:
		return "", false
	case text[table.Start] == '[':
		return insertBelow(text, table.Start, line), true
	case text[table.Start] == '{':
		return intoInline(text, table, line), true
	}
	return "", false
}

// intoInline inserts a member into an inline table.
func intoInline(text string, table strict.Place, member string) string {
	if strings.TrimSpace(text[table.Start+1:table.End-1]) == "" {
		return text[:table.Start+1] + " " + member + " " + text[table.End-1:]
	}
	return insert(text, table.Start+1, " "+member+",")
}

// cutTOML removes a key with its value, and their lines if nothing else is on them.
func cutTOML(text string, at strict.Place) string {
	start := lineStart(text, at.Key)
	if strings.Contains(text[start:at.Key], "{") {
		return cutMember(text, at.Key, at.End)
	}
	return text[:start] + text[min(lineEnd(text, at.End)+1, len(text)):]
}

func removeTableTOML(text string, t *Table) (string, bool) {
	at, ok := t.locate(text)
	if !ok {
		return "", false
	}
	if text[at.Start] == '{' {
		return cutTOML(text, at), true
	}
	for ok { // dotted keys, or headers of the table and of those below it
		if text[at.Start] == '[' {
			text = cutBlockTOML(text, at.Start)
		} else {
			text = cutLines(text, at.Start, at.Start)
		}
		at, ok = t.locate(text)
	}
	return text, true
}

// cutBlockTOML removes the table whose header is at the offset at, up to its last key, and one adjacent blank line.
// Comments after the last key stay, as they may be about the next table.
func cutBlockTOML(text string, at int) string {
	start := lineStart(text, at)
	end := min(lineEnd(text, at)+1, len(text))
	for next := end; next < len(text); {
		lineEnds := min(lineEnd(text, next)+1, len(text))
		line := strings.TrimSpace(text[next:lineEnds])
		if strings.HasPrefix(line, "[") {
			break
		}
		if next = lineEnds; line != "" && line[0] != '#' {
			end = next
		}
	}
	head, tail := text[:start], text[end:]
	if strings.HasSuffix(head, "\n\n") && (tail == "" || tail[0] == '\n') {
		head = head[:len(head)-1]
	}
	return head + tail
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// bare writes a key of TOML, in quotes if it needs them.
func bare(key string) string {
	if bareKey.MatchString(key) {
		return key
	}
	return quoted(key)
}
