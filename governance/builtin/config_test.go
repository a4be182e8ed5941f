package builtin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
)

// TestConfigs checks that an error names the key and the allowed values.
func TestConfigs(t *testing.T) {
	tests := []struct {
		policy, config string
		want           []string
	}{
		{"access", `{"defaults": "deny", "rules": [{"efect": "allow", "caller": ["a"]}]}`,
			[]string{
				"config.defaults: unknown key, did you mean default?",
				"config.rules[0].efect: unknown key, did you mean effect?",
				"config.rules[0].caller: unknown key, did you mean callers?",
			}},
		{"access", `{"default": "no", "rules": [{"effect": "yes"}, {}, {"effect": "deny", "tools": ["["]}]}`,
			[]string{
				`config.default: "no" is none of allow, deny`,
				`config.rules[0].effect: "yes"`,
				"config.rules[1].effect: is missing",
				`config.rules[2]: "[" is not a glob`,
			}},
		{"access", `{"rules": {"effect": "deny"}}`, []string{"config.rules: a object where a list belongs"}},
		{"access", `{"colour": 1}`, []string{"config.colour: unknown key; there are default, rules"}},
		{"access", `{"default": "deny", "Default": "allow"}`, []string{"stated twice"}},
		{"rate_limit", `{}`, []string{"config.limits: is missing"}},
		{"rate_limit", `{"limits": [{"calls": 0}, {"calls": 1, "burst": -1, "per": ["caller", "city"]}]}`,
			[]string{
				"config.limits[0]: calls and burst",
				"config.limits[1]: calls and burst",
				`config.limits[1].per: "city" is none of caller, session, node, tool, extension`,
			}},
		{"rate_limit", `{"limits": [{"calls": 1.5}]}`,
			[]string{"config.limits.calls: a number 1.5 where a whole number belongs"}},
		{"rate_limit", `{"limits": [{"calls": 1, "window": 60}]}`, []string{`60 is not a duration`}},
		{"loop", `{"calls": 0, "window": "0s", "action": "stop"}`,
			[]string{
				"config.calls: is a count from 1 to 1000",
				"config.window",
				`config.action: "stop" is none of deny, ask`,
			}},
		{"loop", `{"window": "-1s"}`, []string{`"-1s" is not a duration`}},
		{"budget", `{"per": "city"}`, []string{"a budget needs calls, bytes or tokens", `config.per: "city"`}},
		{"budget", `{"calls": -1, "bytes": 5}`, []string{"are counts"}},
		{"rate_limit", `{"limits": [{"calls": 1, "burst": 2, "window": "10ms"}], "scope": "cluster"}`,
			[]string{
				"config.limits[0].burst: is for scope: node",
				"config.limits[0].window: scope: cluster needs a window of at least 1s",
			}},
		{"rate_limit", `{"limits": [{"calls": 1}], "scope": "all"}`,
			[]string{`config.scope: "all" is none of node, cluster`}},
		{"budget", `{"calls": 1, "scope": "cluster"}`, []string{"config.window: scope: cluster needs a window"}},
		{"schema", `{}`, []string{"config.schemas: is missing"}},
		{"schema", `{"schemas": [{"tools": ["["]}, {"arguments": {"type": 5}}, {"result": {"$ref": "https://example.com/x"}}]}`,
			[]string{
				`config.schemas[0].tools: "["`,
				"config.schemas[0]: needs arguments, result or error",
				"config.schemas[1].arguments: ",
				"config.schemas[2].result: ",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.policy+" "+tt.config, func(t *testing.T) {
			_, err := builtin.New(spec(t, tt.policy, tt.config))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nsays nothing of: %s", err, want)
				}
			}
		})
	}
	for _, config := range []string{
		`{"limits": [{"calls": 1, "per": ["caller"]}]}`,
		`{"Limits": [{"Calls": 1, "perr": ["caller"]}]}`,
	} {
		if _, err := builtin.New(spec(t, "rate_limit", config)); (err != nil) != strings.Contains(config, "perr") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

func TestCountingPoliciesNeedRateLimiting(t *testing.T) {
	for name, config := range map[string]string{
		"rate_limit": `{"limits": [{"calls": 1}]}`,
		"loop":       `{}`,
		"budget":     `{"calls": 1}`,
	} {
		s := spec(t, name, config)
		if _, err := builtin.New(s); err != nil {
			t.Error(err)
		}
		s.Category = governance.Authorization
		if _, err := builtin.New(s); err == nil ||
			!strings.Contains(err.Error(), name+" counts, so its category is rate_limiting") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := spec(t, "budget", `{"bytes": 1}`)
	s.Flows = []governance.Flow{governance.Request}
	if _, err := builtin.New(s); err == nil || !strings.Contains(err.Error(), "both flows") {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"access", "budget", "cel", "loop", "rate_limit", "schema"} {
		if !strings.Contains(strings.Join(builtin.Names(), " "), name) {
			t.Errorf("there is no %s", name)
		}
	}
	if _, err := builtin.New(governance.Spec{Builtin: "acess"}); err == nil ||
		!strings.Contains(err.Error(), `no built-in policy "acess"`) {
		t.Error(err)
	}
	if _, err := builtin.New(governance.Spec{Builtin: builtin.CEL}); err == nil ||
		!strings.Contains(err.Error(), "celpolicy.New") {
		t.Error(err)
	}
}

// FuzzConfigs creates policies of arbitrary configs and lets the valid ones decide.
func FuzzConfigs(f *testing.F) {
	for _, seed := range []struct{ name, config string }{
		{"access", `{"default":"deny","rules":[{"effect":"allow","tools":["a*"]}]}`},
		{"rate_limit", `{"limits":[{"calls":1,"window":"1ns","burst":9223372036854775807,"per":["tool"]}]}`},
		{"loop", `{"calls":1,"window":"1s","action":"ask"}`},
		{"budget", `{"calls":1,"bytes":9223372036854775807,"tokens":1,"window":"1s","per":"caller"}`},
		{"schema", `{"schemas":[{"tools":["*"],"arguments":{"$ref":"#"},"result":{"pattern":"("}}]}`},
	} {
		f.Add(seed.name, seed.config, `{"a":[1,{"b":null}]}`)
	}
	f.Fuzz(func(t *testing.T, name, text, arguments string) {
		var c map[string]any
		if json.Unmarshal([]byte(text), &c) != nil || !json.Valid([]byte(arguments)) || len(text) > 2000 {
			return
		}
		p, err := builtin.New(governance.Spec{Name: "p", Builtin: name, Category: categories[name], Config: c})
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a word")
			}
			return
		}
		x := call("ext_a_b", arguments)
		x.Response = x.Request
		for _, flow := range []governance.Flow{governance.Request, governance.Response, governance.Request} {
			if d, err := p.Decide(t.Context(), flow, &x); err == nil && d.Action != governance.Allow &&
				d.Reason == "" && d.Code == "" {
				t.Errorf("%s denies without a word: %+v", name, d)
			}
		}
	})
}
