package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// configure decodes what an operator states for a policy into c. A key that c does
// not have is an error.
func configure(config map[string]any, c any) error {
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return fmt.Errorf("config: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
