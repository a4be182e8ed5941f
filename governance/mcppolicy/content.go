package mcppolicy

import (
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// contents returns the contents of a resource's result.
func contents(result json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(rawjson.Get(result, "contents"), &list) // no list: no contents
	return list
}

// contentPayloads returns one payload per content, because plugins handle one at a time. A
// content has the member names of both protocols: mimeType, and type and mime_type.
func contentPayloads(x *governance.Exchange, body json.RawMessage) (payloads []json.RawMessage) {
	uri := rawjson.Get(x.Request, "uri")
	for _, c := range contents(body) {
		also := map[string]json.RawMessage{"type": json.RawMessage(`"resource"`)}
		if mime := rawjson.Get(c, "mimeType"); mime != nil {
			also["mime_type"] = mime
		}
		payloads = append(payloads, payloadOf("uri", uri, "content", rawjson.Edit(c, also))...)
	}
	return payloads
}

// mergeContent takes the text or blob of a changed content. The other members stay as the
// extension sent them.
func mergeContent(_ *governance.Exchange, body json.RawMessage, i int, changed json.RawMessage,
) (json.RawMessage, error) {
	content := member(changed, "content")
	if content == nil {
		return body, nil
	}
	if _, err := rawjson.Object(content); err != nil {
		return nil, fmt.Errorf("its content: %w", err)
	}
	edits := make(map[string]json.RawMessage, 2)
	for _, key := range []string{"text", "blob"} {
		edits[key] = member(content, key)
		if _, ok := rawjson.Text(edits[key]); edits[key] != nil && !ok {
			return nil, fmt.Errorf("the %s of its content is not a string", key)
		}
	}
	list := contents(body)
	list[i] = rawjson.Edit(list[i], edits)
	b := []byte{'['}
	for i, c := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, c...)
	}
	return rawjson.Set(body, "contents", append(b, ']')), nil
}
