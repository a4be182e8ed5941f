package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// EncodeJSON encodes a value of a file, such as a tool's input_schema: integers in full, keys sorted, dates and times
// as RFC 3339 text. A value that JSON cannot represent, such as nan, is an error.
func EncodeJSON(v any) (json.RawMessage, error) {
	plain, err := jsonable(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(plain); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// jsonable replaces values that encoding/json refuses or writes differently.
func jsonable(v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return v.Format(cmp.Or(localLayouts[v.Location().String()], time.RFC3339Nano)), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("JSON has no number %v", v)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, elem := range v {
			plain, err := jsonable(elem)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			out[key] = plain
		}
		return out, nil
	case []any:
		return jsonableList(v)
	case []map[string]any: // from the TOML parser
		return jsonableList(v)
	}
	return v, nil
}

func jsonableList[E any](list []E) (any, error) {
	out := make([]any, len(list))
	for i, elem := range list {
		plain, err := jsonable(elem)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		out[i] = plain
	}
	return out, nil
}

// localLayouts are the layouts of TOML's dates and times without a zone. The parser marks such a time by the name
// of its location.
var localLayouts = map[string]string{
	"datetime-local": "2006-01-02T15:04:05.999999999",
	"date-local":     time.DateOnly,
	"time-local":     "15:04:05.999999999",
}
