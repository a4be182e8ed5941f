package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// decoder decodes a tool's arguments. It sets string fields itself, because most large arguments are strings and
// encoding/json reads each byte several times.
type decoder[In any] struct {
	texts map[string]int // index of the string field by member name
}

func newDecoder[In any]() (d decoder[In]) {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return d
	}
	texts := make(map[string]int)
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			return d // fields of f and of t may shadow each other
		}
		if f.IsExported() && f.Type == reflect.TypeFor[string]() && name != "" && name != "-" &&
			!strings.Contains(options, "string") {
			texts[name] = i
		}
	}
	d.texts = texts
	return d
}

// decode decodes the arguments. Its error is for the caller, who can correct them.
func (d decoder[In]) decode(arguments json.RawMessage) (in In, err error) {
	if p, ok := any(&in).(*json.RawMessage); ok {
		*p = arguments
		return in, nil
	}
	arguments = orObject(arguments)
	if len(d.texts) > 0 && arguments[0] == '{' {
		if arguments = d.takeTexts(reflect.ValueOf(&in).Elem(), arguments); arguments == nil {
			return in, nil
		}
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, fmt.Errorf("the arguments do not fit: %w", err)
	}
	return in, nil
}

// orObject returns arguments, {} if there are none.
func orObject(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 {
		return json.RawMessage("{}")
	}
	return arguments
}

// takeTexts sets the string fields of in and returns an object with the other members, nil if there are none.
func (d decoder[In]) takeTexts(in reflect.Value, arguments json.RawMessage) (rest json.RawMessage) {
	rawjson.Each(arguments, func(name []byte, value json.RawMessage) bool {
		if field, ok := d.texts[string(name)]; ok && value[0] == '"' {
			in.Field(field).SetString(textOf(value, len(arguments)))
			return true
		}
		if rest == nil {
			rest = append(rest, '{')
		} else {
			rest = append(rest, ',')
		}
		rest = append(append(rawjson.AppendText(rest, name), ':'), value...)
		return true
	})
	if rest == nil {
		return nil
	}
	return append(rest, '}')
}

// largeText is the size in bytes from which a copy of a text costs more than to keep the message that it is part of.
const largeText = 64 << 10

// textOf returns the content of value, a string within arguments of that many bytes. A large text that is most of them
// shares their memory, which nothing changes.
func textOf(value json.RawMessage, arguments int) string {
	text := rawjson.Unquote(value)
	if len(text) >= largeText && len(text) > arguments/2 {
		return unsafe.String(&text[0], len(text))
	}
	return string(text)
}
