package config

import (
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// ParsePolicy parses one entry of plugins, in YAML: a map, or a list of one. It reads no file, so that paths stay as
// they are, and variables count as unset. The error is a [Refused].
func ParsePolicy(text string) (s governance.Spec, err error) {
	report := &strict.Report{Code: string(protocol.ConfigInvalid)}
	n := parse("entry.yaml", []byte(text), report)
	if n != nil && n.Kind == strict.List && len(n.Items) == 1 {
		n = n.Items[0]
	}
	switch {
	case report.Failed():
	case n == nil || n.Kind != strict.Map:
		report.Add(strict.Pos{File: "entry.yaml"}, "such as: {name: no_rm, category: authorization, builtin: access, "+
			"config: {rules: [{effect: deny, tools: [\"*_rm\"]}]}}", "want one entry of plugins")
	default:
		d := strict.Decoder{
			Report:    report,
			Lookup:    func(string) (string, bool) { return "", false },
			CamelCase: "plugins",
		}
		d.Decode("plugins[0]", n, &s)
	}
	if report.Failed() {
		return s, Refused(report.Diagnostics)
	}
	return s, nil
}
