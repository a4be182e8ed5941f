package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// JSON writes a value that came from a file ([config], a tool's input_schema)
// as JSON: integers in full, keys sorted, dates and times as RFC 3339 text. It
// fails for what JSON cannot hold, such as nan.
func JSON(v any) (json.RawMessage, error) {
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

// jsonable replaces what encoding/json would refuse or write otherwise.
func jsonable(v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return localTime(v), nil
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
	case []map[string]any: // of the TOML parser
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

// localTime writes TOML's dates and times without a zone as they stood there;
// the parser marks them by the name of their location.
func localTime(t time.Time) string {
	switch t.Location().String() {
	case "datetime-local":
		return t.Format("2006-01-02T15:04:05.999999999")
	case "date-local":
		return t.Format(time.DateOnly)
	case "time-local":
		return t.Format("15:04:05.999999999")
	}
	return t.Format(time.RFC3339Nano)
}
