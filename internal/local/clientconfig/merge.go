package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Merge adds the entries of a configuration file written by this package to an existing YAML file, and leaves the
// comments of the existing file in place. Maps are merged by key, lists of tables by name. kept are the names of
// entries that the existing file already has; those are not changed.
func Merge(existing, added []byte) (merged []byte, kept []string, err error) {
	var have, more yaml.Node
	if err := errors.Join(decodeYAML(existing, &have), decodeYAML(added, &more)); err != nil {
		return nil, nil, err
	}
	if len(have.Content) == 0 { // only comments
		return append(bytes.TrimRight(existing, "\n"), append([]byte("\n"), added...)...), nil, nil
	}
	if have.Content[0].Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("it is no map of sections")
	}
	if err := merge(have.Content[0], more.Content[0], &kept, 0); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err = errors.Join(e.Encode(&have), e.Close())
	return b.Bytes(), kept, err
}

// merge adds to have the members of more. Top-level sections are merged. An entry that have already contains is kept as
// it is, and its name is added to kept.
func merge(have, more *yaml.Node, kept *[]string, depth int) error {
	for i := 0; i+1 < len(more.Content); i += 2 {
		key, value := more.Content[i], more.Content[i+1]
		at := slices.IndexFunc(have.Content, func(n *yaml.Node) bool { return n.Value == key.Value })
		for at%2 == 1 { // at is a value with that text, not a key
			next := slices.IndexFunc(have.Content[at+1:], func(n *yaml.Node) bool { return n.Value == key.Value })
			if at += next + 1; next < 0 {
				at = -1
			}
		}
		switch {
		case at < 0:
			have.Content = append(have.Content, key, value)
		case depth > 0:
			*kept = append(*kept, key.Value)
		case have.Content[at+1].Tag == "!!null":
			have.Content[at+1] = value
		case have.Content[at+1].Kind != value.Kind:
			return fmt.Errorf("line %d: %s has another form; add the entries by hand", have.Content[at+1].Line,
				key.Value)
		case value.Kind == yaml.SequenceNode:
			appendNamed(have.Content[at+1], value, kept)
		default:
			if err := merge(have.Content[at+1], value, kept, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendNamed appends the elements of more whose names are not in have.
func appendNamed(have, more *yaml.Node, kept *[]string) {
	name := func(n *yaml.Node) string {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "name" {
				return n.Content[i+1].Value
			}
		}
		return ""
	}
	for _, item := range more.Content {
		if slices.ContainsFunc(have.Content, func(n *yaml.Node) bool { return name(n) == name(item) }) {
			*kept = append(*kept, name(item))
		} else {
			have.Content = append(have.Content, item)
		}
	}
}
