// Package strictjson decodes the JSON that a policy decides about. It refuses JSON that the policy
// and the receiver may understand differently.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Arguments decodes the arguments of a request, with numbers as json.Number. It rejects an object
// with two members of the same name or of names that differ in case alone, because the policy and
// the extension may each read another of the two.
func Arguments(text json.RawMessage) (any, error) { return decode(text, NoTwins) }

// Result decodes a result, with numbers as json.Number. It rejects an object with two members of
// the same name, because the policy and the caller may each read another of the two.
func Result(text json.RawMessage) (any, error) {
	return decode(text, func(text json.RawMessage) error { return unique(text, exactly) })
}

// decode decodes text, which check must accept.
func decode(text json.RawMessage, check func(json.RawMessage) error) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&value); err == nil {
		if _, err = d.Token(); err == nil {
			err = errors.New("more follows its end")
		} else if err == io.EOF {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what it decides about is not JSON: %w", err)
	}
	return value, check(text)
}

// linear is the number of names of an object up to which a new name is compared with each; beyond,
// a map is used.
const linear = 32

// object is an object or array that encloses the current position.
type object struct {
	first int // index of its first name in names
	seen  map[string][]byte
}

// NoTwins returns an error when an object in text has a member twice, or two members whose names
// differ in case alone: the policies may decide about one of them and the receiver may read the
// other. text must be valid JSON.
func NoTwins(text json.RawMessage) error { return unique(text, ignoringCase) }

// unique returns an error when an object in text has two names that are the same by c, or when text
// is not UTF-8. text must be valid JSON.
func unique(text json.RawMessage, c comparison) error {
	names := make([][]byte, 0, 16) // of the enclosing objects; on the stack, as inside is, for usual requests
	inside := make([]object, 0, 8)
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
			if next := rawjson.SkipSpace(text, end); next < len(text) && text[next] == ':' && len(inside) > 0 {
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

// comparison tells which names are the same. key maps names that are the same to equal keys.
type comparison struct {
	same func(a, b []byte) bool
	key  func(name []byte) string
}

// ignoringCase ignores case. The long s (ſ) is the same as s, the Kelvin sign as k, and İ and ı as
// i.
var ignoringCase = comparison{
	same: func(a, b []byte) bool { return bytes.EqualFold(plainI(a), plainI(b)) },
	key:  func(name []byte) string { return strings.ToLower(strings.ToUpper(string(name))) },
}

// plainI returns name with an i for each İ and ı. These two are the only letters that EqualFold
// does not find equal to the letter that they become in upper or lower case.
func plainI(name []byte) []byte {
	if bytes.IndexByte(name, "İ"[0]) < 0 { // both begin with this byte
		return name
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(name, []byte("İ"), []byte("i")), []byte("ı"), []byte("i"))
}

var exactly = comparison{same: bytes.Equal, key: func(name []byte) string { return string(name) }}

func twins(one, other []byte) error {
	if bytes.Equal(one, other) {
		return fmt.Errorf("the member %.100q stands there twice, and not everybody reads the same one", one)
	}
	return fmt.Errorf("the member %.100q stands beside %.100q, and not everybody tells them apart", other, one)
}
