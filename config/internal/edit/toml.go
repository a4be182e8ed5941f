package edit

import (
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/exthost/exthost/internal/text/strict"
)

func addTOML(text, section, key, item string) (string, error) {
	if at, ok := strict.LocateTOML([]byte(text), section, key); ok {
		f, simple := readFlow(text, at)
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
	at, ok := strict.LocateTOML([]byte(text), section)
	switch {
	case !ok:
		return appended(text, "["+section+"]\n"+line+"\n"), nil
	case text[at] == '{' && strings.TrimSpace(text[at+1:strings.IndexByte(text[at:], '}')+at]) == "":
		return insert(text, at+1, " "+line+" "), nil
	case text[at] == '{':
		return insert(text, at+1, " "+line+","), nil
	case text[at] == '[': // a subtable
		return insert(text, lineStart(text, at), "["+section+"]\n"+line+"\n\n"), nil
	}
	return insertBelow(text, at, section+"."+line), nil // beside other dotted keys
}

func removeTOML(text, section, key, value string) (string, error) {
	at, _ := strict.LocateTOML([]byte(text), section, key)
	f, simple := readFlow(text, at)
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
