package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// linear is how many members of one object are compared one by one; more are put in a map.
const linear = 32

// object is an object or an array that the scan is in.
type object struct {
	first int // index of its first name in names
	seen  map[string][]byte
}

// NoTwins returns an error when an object in text, which is valid JSON, has a member twice,
// or two members whose names differ in case alone: the policies may decide about one of them
// and the receiver may read the other.
func NoTwins(text json.RawMessage) error {
	var names [][]byte // of the objects that the scan is in
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
				if err := inside[len(inside)-1].add(name, names); err != nil {
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
func (o *object) add(name []byte, names [][]byte) error {
	own := names[o.first:]
	if len(own) < linear {
		for _, other := range own {
			if bytes.EqualFold(other, name) {
				return twins(other, name)
			}
		}
		return nil
	}
	if o.seen == nil {
		o.seen = make(map[string][]byte, 2*linear)
		for _, other := range own {
			o.seen[fold(other)] = other
		}
	}
	if other, ok := o.seen[fold(name)]; ok {
		return twins(other, name)
	}
	o.seen[fold(name)] = name
	return nil
}

// fold maps names that differ in case alone to one text; ſ is an s and the Kelvin sign a k.
func fold(name []byte) string { return strings.ToLower(strings.ToUpper(string(name))) }

func twins(one, other []byte) error {
	if bytes.Equal(one, other) {
		return fmt.Errorf("the member %.100q stands there twice, and not everybody reads the same one", one)
	}
	return fmt.Errorf("the member %.100q stands beside %.100q, and not everybody tells them apart", other, one)
}
