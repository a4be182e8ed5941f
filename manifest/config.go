package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// MergeConfig lays the operator's values over [config], table by table; the result is {} if both are empty. The
// error lists values that violate [config_schema].
func (m *Manifest) MergeConfig(operator map[string]any) (json.RawMessage, error) {
	raw, err := EncodeJSON(merge(m.Config, operator))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	schema, err := m.configSchema()
	if err != nil || schema == nil {
		return raw, err
	}
	for _, f := range schema.check(raw, false) {
		err = errors.Join(err, f)
	}
	return raw, err
}

// merge returns top laid over base, changing neither.
func merge(base, top map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(top))
	maps.Copy(out, base)
	for key, v := range top {
		below, isTable := out[key].(map[string]any)
		if above, ok := v.(map[string]any); ok && isTable {
			v = merge(below, above)
		}
		out[key] = v
	}
	return out
}

// config checks [config] against [config_schema]. A missing value is no error, since the operator may supply it.
func (v *validator) config() {
	raw, err := EncodeJSON(v.m.Config)
	if err != nil {
		v.errorf("config", "", "config: %v", err)
		return
	}
	schema, err := v.m.configSchema()
	if err != nil {
		v.errorf("config_schema", "", "config_schema is not a JSON Schema: %v", err)
		return
	}
	if schema == nil || v.m.Config == nil {
		return
	}
	if !schema.affords(raw) {
		v.errorf("config_schema", "", "config_schema is too large to check this config against")
		return
	}
	for _, f := range schema.check(raw, true) {
		v.errorf(f.path(), "", "%v", f)
	}
}

// configSchema returns nil if the manifest states none.
func (m *Manifest) configSchema() (*compiledSchema, error) {
	if m.ConfigSchema == nil {
		return nil, nil
	}
	raw, err := EncodeJSON(m.ConfigSchema)
	if err != nil {
		return nil, err
	}
	return compileSchema(raw)
}
