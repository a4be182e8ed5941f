package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/exthost/exthost/internal/strict"
	"github.com/exthost/exthost/manifest/internal/configschema"
)

// MergeConfig returns the extension's configuration: [config] with the
// operator's values laid over it, table by table, checked against
// [config_schema]. Without either it is {}.
func (m *Manifest) MergeConfig(operator map[string]any) (json.RawMessage, error) {
	raw, err := JSON(merge(m.Config, operator))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	schema, err := m.configSchema()
	if err != nil || schema == nil {
		return raw, err
	}
	var errs []error
	for _, f := range schema.Check(raw, false) {
		errs = append(errs, errors.New(f.String()))
	}
	return raw, errors.Join(errs...)
}

// merge lays top over base without changing either.
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

// config checks that [config] can be handed over, and what it states against
// [config_schema]. What it leaves out the operator may still supply.
func (v *validator) config() {
	raw, err := JSON(v.m.Config)
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
	if !schema.Affords(raw) {
		v.errorf("config_schema", "", "config_schema is too large to check this config against")
		return
	}
	for _, f := range schema.Check(raw, true) {
		path := "config"
		for _, step := range f.Location {
			if i, err := strconv.Atoi(step); err == nil {
				path = strict.Index(path, i)
			} else {
				path += "." + step
			}
		}
		v.errorf(path, "", "%s", f)
	}
}

// configSchema returns nil for no schema at all.
func (m *Manifest) configSchema() (*configschema.Schema, error) {
	if m.ConfigSchema == nil {
		return nil, nil
	}
	raw, err := JSON(m.ConfigSchema)
	if err != nil {
		return nil, err
	}
	return configschema.Compile(raw)
}
