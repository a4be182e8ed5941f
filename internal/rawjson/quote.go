package rawjson

import "encoding/json"

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage { return AppendText(nil, s) }
