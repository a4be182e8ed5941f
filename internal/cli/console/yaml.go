package console

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// PrintYAML prints v as YAML. It encodes v as JSON first, so that both forms have the
// same keys in the same order and numbers keep their digits. Characters that a terminal
// acts on are escaped, which YAML allows between double quotes.
func (c *Console) PrintYAML(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return err
	}
	_, err = io.WriteString(c.Out, escape(b.String(), "\n"))
	return err
}

// yamlNode reads the next value of dec.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if token == '{' {
			node.Kind = yaml.MappingNode // Content holds keys and values in turn
		}
		for dec.More() {
			item, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, item)
		}
		_, err := dec.Token() // the end
		return node, err
	case string:
		node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: token}
		if strings.ContainsFunc(token, Invisible) {
			node.Style = yaml.DoubleQuotedStyle
		}
		return node, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
	}
	node := &yaml.Node{}
	return node, node.Encode(token) // true, false or null
}
