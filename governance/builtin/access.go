package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
)

// accessConfig is the config of the built-in policy access, which allows and denies
// requests by caller, node, tool, extension and method:
//
//	default: deny             # allow (default) or deny: requests to extensions that no rule matches
//	rules:                    # the first that matches decides
//	- effect: allow           # allow or deny
//	  callers: ["team/*"]     # globs; without the list, every caller
//	  nodes: ["gpu*"]         # globs of the callers' cluster nodes; "." is this host, "?*" every other node
//	  tools: ["ext_files_*"]  # registered names; an allow rule covers only the extension that the pattern names
//	  extensions: [files]     # ids
//	  methods: ["tools/*"]    # MCP method names, in both directions
//	  risk: [read]            # of the tool: read, write, destroy; requests that are about no tool have none
//	  reason: "ask Ada"       # part of the denial
//
// The default does not apply to requests for lists. Lists omit the tools that the caller may not
// call; other nodes of a cluster do not apply these rules to their lists.
type accessConfig struct {
	Default string       `json:"default"`
	Rules   []accessRule `json:"rules"`
}

// listMethods are the requests that the default does not apply to. Custom methods of an
// extension are never among them.
var listMethods = []string{protocol.MethodToolsList, "resources/list", "resources/templates/list", "prompts/list"}

type accessRule struct {
	Effect     string    `json:"effect"`
	Callers    glob.List `json:"callers"`
	Nodes      glob.List `json:"nodes"`
	Tools      glob.List `json:"tools"`
	Extensions glob.List `json:"extensions"`
	Methods    glob.List `json:"methods"`
	Risk       riskList  `json:"risk"`
	Reason     string    `json:"reason"`
}

// riskList is a list of risks in the config of a policy.
type riskList []protocol.Risk

// UnmarshalJSON implements [json.Unmarshaler].
func (l *riskList) UnmarshalJSON(b []byte) error {
	var list []protocol.Risk
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("%s is not a list such as [read, write]", b)
	}
	known := protocol.Risk("").Values()
	for _, risk := range list {
		if slices.Contains(known, string(risk)) {
			continue
		}
		if near := text.Nearest(string(risk), known); near != "" {
			return fmt.Errorf("%q is no risk, did you mean %s?", risk, near)
		}
		return fmt.Errorf("%q is no risk; there are %s", risk, strings.Join(known, ", "))
	}
	*l = list
	return nil
}

const (
	allowed = "allow"
	denied  = "deny"
	asked   = "ask"
)

type access struct {
	accessConfig
	names atomic.Pointer[names]
}

// Namer is a policy that needs the name prefixes of the extensions. Name is called with the
// prefixes of all extensions whenever they may have changed.
type Namer interface {
	Name(glob.Prefixes)
}

// names holds the prefixes of the extensions. They tell which extension a pattern of tool names
// means.
type names struct {
	prefixes glob.Prefixes
	longest  map[string]string // by pattern of an allow rule: the longest prefix that it begins with
}

// Name implements [Namer].
func (p *access) Name(prefixes glob.Prefixes) {
	n := names{prefixes, make(map[string]string)}
	for _, r := range p.Rules {
		for _, pattern := range r.Tools {
			if r.Effect == allowed {
				n.longest[pattern] = prefixes.Longest(pattern)
			}
		}
	}
	p.names.Store(&n)
}

func newAccess(s governance.Spec) (governance.Policy, error) {
	var p access
	if err := settings.Decode(s.Config, &p.accessConfig); err != nil {
		return nil, err
	}
	errs := []error{settings.OneOf("default", &p.Default, allowed, denied)}
	for i, r := range p.Rules {
		place := fmt.Sprintf("rules[%d]", i)
		if r.Effect == "" {
			errs = append(errs, settings.Wrong("config."+place+".effect", "is missing; allow or deny"))
		} else {
			errs = append(errs, settings.OneOf(place+".effect", &r.Effect, allowed, denied))
		}
		for _, globs := range []glob.List{r.Callers, r.Nodes, r.Tools, r.Extensions, r.Methods} {
			if err := globs.Check(); err != nil {
				errs = append(errs, settings.Wrong("config."+place, "%w", err))
			}
		}
	}
	return &p, errors.Join(errs...)
}

// Decide implements [governance.Policy].
func (p *access) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Response {
		return governance.Decision{}, nil
	}
	effect, reason := p.effect(x)
	if effect == allowed {
		return governance.Decision{}, nil
	}
	if reason == "" {
		what := cmp.Or(x.Tool, x.Method)
		of := ""
		if x.Node != "" {
			of = " of node " + x.Node
		}
		reason = fmt.Sprintf("caller %q%s may not use %s", x.Caller, of, what)
	}
	return governance.Decision{Action: governance.Deny, Code: "unauthorized", Reason: reason}, nil
}

// Visible implements [governance.Visibler].
func (p *access) Visible(caller string, t governance.Tool) bool {
	effect, _ := p.effect(t.Called(caller))
	return effect == allowed
}

func (p *access) effect(x *governance.Exchange) (effect, reason string) {
	for i := range p.Rules {
		if r := &p.Rules[i]; r.fits(x) && (r.Effect == denied || p.meant(r.Tools, x)) {
			return r.Effect, r.Reason
		}
	}
	own := x.Extension == "" && x.Tool != "" // a tool of the host, such as the page tool
	if !x.ToChild || own || slices.Contains(listMethods, x.Method) {
		return allowed, ""
	}
	return p.Default, ""
}

// meant reports whether one of the patterns matches x.Tool and means x.Extension: the tool names of
// another extension may begin like those of this one.
func (p *access) meant(patterns glob.List, x *governance.Exchange) bool {
	n := p.names.Load()
	if n == nil || len(patterns) == 0 {
		return true
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return glob.Match(pattern, x.Tool) && n.prefixes.Mean(n.longest[pattern], x.Extension)
	})
}

func (r *accessRule) fits(x *governance.Exchange) bool {
	fits := func(globs glob.List, name string) bool { return len(globs) == 0 || globs.Match(name) }
	return fits(r.Callers, x.Caller) && (len(r.Nodes) == 0 || x.IsFrom(r.Nodes)) && fits(r.Tools, x.Tool) &&
		fits(r.Extensions, x.Extension) && fits(r.Methods, x.Method) &&
		(len(r.Risk) == 0 || slices.Contains(r.Risk, x.ToolRisk()))
}
