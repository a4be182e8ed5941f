package toolset

import (
	"maps"
	"reflect"
	"slices"
)

// Clone returns a deep copy of all.
func Clone(all map[string]Definition) map[string]Definition {
	copies := maps.Clone(all)
	for name, d := range copies {
		d.Include, d.Exclude, d.Describe = slices.Clone(d.Include), slices.Clone(d.Exclude), maps.Clone(d.Describe)
		if d.Prefix != nil {
			prefix := *d.Prefix
			d.Prefix = &prefix
		}
		copies[name] = d
	}
	return copies
}

// Keep protects toolsets from later files: it restores in now the toolsets of before, and removes new ones whose
// names are in named, the toolsets that earlier files refer to without stating them. It returns the keys of the
// restored and removed toolsets.
func Keep(now, before map[string]Definition, named map[string]string) (kept []string) {
	names := slices.Collect(maps.Values(named))
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, defined := before[name]
		if reflect.DeepEqual(now[name], was) && defined || !defined && !slices.Contains(names, name) {
			continue
		}
		if now[name] = was; !defined {
			delete(now, name)
		}
		kept = append(kept, root+name)
	}
	return kept
}
