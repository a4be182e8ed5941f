package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// linear is the number of members of an object that are compared one by one; more are put in a map.
const linear = 32

// object is an object or array that encloses the current position.
type object struct {
	first int // index of its first name in names
	seen  map[string][]byte
}

// NoTwins returns an error when an object in text, which is valid JSON, has a member twice,
// or two members whose names differ in case alone: the policies may decide about one of them
// and the receiver may read the other.
func NoTwins(text json.RawMessage) error { return unique(text, ignoringCase) }

// unique returns an error when an object in text, which is valid JSON, has two names that are the same by c.
func unique(text json.RawMessage, c comparison) error {
	var names [][]byte // of the enclosing objects
	var inside []object
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			inside = append(inside, object{first: len(names)})
		case '}', ']':
			if n := len(inside); n > 0 {
				names, inside = names[:inside[n-1].first], inside[:n-1]
			}
		case '"':
			end, err := rawjson.SkipString(text, i)
			if err != nil {
				return err
			}
			if rest := bytes.TrimLeft(text[end:], " \t\r\n"); len(rest) > 0 && rest[0] == ':' && len(inside) > 0 {
				name := rawjson.Unquote(text[i:end])
				if err := inside[len(inside)-1].add(name, names, c); err != nil {
					return err
				}
				names = append(names, name)
			}
			i = end - 1
		}
	}
	return nil
}

// add compares name with the names before it in the same object.
func (o *object) add(name []byte, names [][]byte, c comparison) error {
	own := names[o.first:]
	if len(own) < linear {
		for _, other := range own {
			if c.same(other, name) {
				return twins(other, name)
			}
		}
		return nil
	}
	if o.seen == nil {
		o.seen = make(map[string][]byte, 2*linear)
		for _, other := range own {
			o.seen[c.key(other)] = other
		}
	}
	if other, ok := o.seen[c.key(name)]; ok {
		return twins(other, name)
	}
	o.seen[c.key(name)] = name
	return nil
}

// comparison says which names are the same: same(a, b) means key(a) == key(b).
type comparison struct {
	same func(a, b []byte) bool
	key  func(name []byte) string
}

// ignoringCase includes ſ and s, and the Kelvin sign and k.
var ignoringCase = comparison{
	same: bytes.EqualFold,
	key:  func(name []byte) string { return strings.ToLower(strings.ToUpper(string(name))) },
}

// exactly reads each invalid byte as U+FFFD, as decoders do.
var exactly = comparison{
	same: func(a, b []byte) bool {
		return bytes.EqualFold(a, b) && string([]rune(string(a))) == string([]rune(string(b)))
	},
	key: func(name []byte) string { return string([]rune(string(name))) },
}

func twins(one, other []byte) error {
	if bytes.Equal(one, other) {
		return fmt.Errorf("the member %.100q stands there twice, and not everybody reads the same one", one)
	}
	return fmt.Errorf("the member %.100q stands beside %.100q, and not everybody tells them apart", other, one)
}
