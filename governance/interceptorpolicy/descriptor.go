package interceptorpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// maxName is how long the name of an interceptor may be, in bytes.
const maxName = 256

// interceptor is what a server says of one of its interceptors.
type interceptor struct {
	name     string
	mutates  bool // else it validates
	audit    bool // what it decides has no effect
	failOpen bool // the exchange goes on when it fails
	hooks    []hook
	priority map[governance.Flow]int // of a mutator: lower runs first
	config   json.RawMessage         // nil is none
	failing  atomic.Bool             // it failed when it was asked last, and that was passed over
	audits   audits                  // in mode audit
}

// hook is a list of events and the phase in which they are hooked.
type hook struct {
	events []string
	phase  string // request, response or both
}

// interceptor reads an element of the list. names are those before it. Of one that the
// policy does not invoke it reads the name alone.
func (p *Policy) interceptor(raw json.RawMessage, names []string) (*interceptor, error) {
	m, err := members(raw)
	if err != nil {
		return nil, err
	}
	i := &interceptor{}
	i.name, _ = rawjson.Text(m["name"])
	switch {
	case i.name == "" || len(i.name) > maxName || i.name != display.Visible(strings.TrimSpace(i.name)):
		return nil, fmt.Errorf("an interceptor has the name %s, which is empty, too long or not visible",
			display.CutWords(string(m["name"]), 80))
	case slices.Contains(names, i.name):
		return nil, fmt.Errorf("it lists %q twice", i.name)
	case len(p.spec.Interceptors) > 0 && !slices.Contains(p.spec.Interceptors, i.name):
		return i, nil
	}
	if err := errors.Join(i.kind(m), i.hook(m), i.order(m), p.compatible(m["compat"])); err != nil {
		return nil, fmt.Errorf("interceptor %s: %w", i.name, err)
	}
	return i, nil
}

// kind reads the type, the mode and what a failure means.
func (i *interceptor) kind(m map[string]json.RawMessage) error {
	switch t, _ := rawjson.Text(m["type"]); t {
	case "validation":
	case "mutation":
		i.mutates = true
	default:
		return fmt.Errorf("its type is %s, neither validation nor mutation; to do without it, name the others in "+
			"interceptors", orAbsent(m["type"]))
	}
	switch mode, _ := rawjson.Text(m["mode"]); {
	case absent(m["mode"]) || mode == "active" || mode == "enforce":
	case mode == "audit":
		i.audit = true
	default:
		return fmt.Errorf("its mode is %s, none of enforce, active and audit", m["mode"])
	}
	switch open := string(m["failOpen"]); {
	case absent(m["failOpen"]) || open == "false":
	case open == "true":
		i.failOpen = true
	default:
		return fmt.Errorf("its failOpen is %s, neither true nor false", open)
	}
	return nil
}

// hook reads the hooks: a list, or one as in earlier forms of the proposal.
func (i *interceptor) hook(m map[string]json.RawMessage) error {
	var list []json.RawMessage
	switch {
	case absent(m["hooks"]) == absent(m["hook"]):
		return errors.New("it needs either hooks or hook")
	case absent(m["hooks"]):
		list = []json.RawMessage{m["hook"]}
	default:
		if err := json.Unmarshal(m["hooks"], &list); err != nil {
			return errors.New("its hooks are not a list")
		}
	}
	for _, raw := range list {
		h, err := readHook(raw)
		if err != nil {
			return err
		}
		i.hooks = append(i.hooks, h)
	}
	return nil
}

func readHook(raw json.RawMessage) (h hook, err error) {
	m, err := members(raw)
	if err != nil {
		return h, fmt.Errorf("its hook: %w", err)
	}
	if h.phase, _ = rawjson.Text(m["phase"]); h.phase != string(governance.Request) &&
		h.phase != string(governance.Response) && h.phase != "both" {
		return h, fmt.Errorf("the phase of its hook is %s, none of request, response and both", orAbsent(m["phase"]))
	}
	if err := json.Unmarshal(m["events"], &h.events); err != nil || h.events == nil {
		return h, fmt.Errorf("the events of its hook are %s, not a list of names", orAbsent(m["events"]))
	}
	for _, event := range h.events {
		if event == "" || strings.Contains(event, "*") && glob.Check(event) != nil {
			return h, fmt.Errorf("its hook has the event %q", event)
		}
	}
	return h, nil
}

// order reads the priority of a mutator.
func (i *interceptor) order(m map[string]json.RawMessage) error {
	hint := m["priorityHint"]
	if !i.mutates || absent(hint) {
		return nil
	}
	i.priority = make(map[governance.Flow]int)
	for _, flow := range []governance.Flow{governance.Request, governance.Response} {
		value := hint
		if rawjson.IsObject(hint) {
			if value = rawjson.Get(hint, string(flow)); absent(value) {
				continue
			}
		}
		n, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil {
			return fmt.Errorf("its priorityHint is %s, not a whole number of 32 bits",
				display.CutWords(string(hint), 80))
		}
		i.priority[flow] = int(n)
	}
	return nil
}

// compatible checks that the interceptor is for the version that is spoken. Versions are
// dates and sort as text.
func (p *Policy) compatible(compat json.RawMessage) error {
	if absent(compat) {
		return nil
	}
	low, okLow := rawjson.Text(rawjson.Get(compat, "minProtocol"))
	high, okHigh := rawjson.Text(rawjson.Get(compat, "maxProtocol"))
	if !okLow && !absent(rawjson.Get(compat, "minProtocol")) ||
		!okHigh && !absent(rawjson.Get(compat, "maxProtocol")) || !rawjson.IsObject(compat) {
		return fmt.Errorf("its compat is %s, not a range of versions", display.CutWords(string(compat), 80))
	}
	if v := p.o.Version(); v < low || high != "" && v > high {
		return fmt.Errorf("it is for MCP %s to %s, and its server speaks %s", low, high, v)
	}
	return nil
}

// hooked reports whether the interceptor is to be asked.
func (i *interceptor) hooked(event string, flow governance.Flow) bool {
	return slices.ContainsFunc(i.hooks, func(h hook) bool {
		return slices.ContainsFunc(h.events, func(pattern string) bool { return h.matches(pattern, event, flow) })
	})
}

func (h *hook) matches(pattern, event string, flow governance.Flow) bool {
	switch {
	case h.phase != "both" && h.phase != string(flow):
		return false
	case pattern == "*/request" || pattern == "*/response":
		return pattern == "*/"+string(flow)
	case strings.Contains(pattern, "*"):
		return glob.Match(pattern, event)
	}
	return pattern == event
}

// occurring are the events that MCP's requests are. Methods of other extensions of MCP may
// pass, too.
var occurring = []string{
	protocol.MethodToolsList, protocol.MethodToolsCall, protocol.MethodPromptsList, protocol.MethodPromptsGet,
	protocol.MethodResourcesList, protocol.MethodResourceTemplates, protocol.MethodResourcesRead,
	protocol.MethodResourcesSubscribe,
	protocol.MethodResourcesUnsubscribe, protocol.MethodComplete, protocol.MethodSetLevel, protocol.MethodListen,
	protocol.MethodSkillsList, protocol.MethodSkillsGet, protocol.MethodDirectoryRead,
	protocol.MethodTasksList, protocol.MethodTasksGet, protocol.MethodTasksResult, protocol.MethodTasksUpdate,
	protocol.MethodTasksCancel,
	protocol.MethodSample, protocol.MethodElicit, protocol.MethodRootsList,
}

// events returns the number of events that the interceptor hooks.
func (i *interceptor) events() (n int) {
	for _, h := range i.hooks {
		n += len(h.events)
	}
	return n
}

// foreign returns the events that the interceptor hooks and that none of MCP's requests is.
func (i *interceptor) foreign() (events []string) {
	for _, h := range i.hooks {
		for _, pattern := range h.events {
			if !slices.ContainsFunc(occurring, func(event string) bool {
				return h.matches(pattern, event, governance.Request) || h.matches(pattern, event, governance.Response)
			}) {
				events = append(events, pattern)
			}
		}
	}
	return events
}

// members returns the members of an object. One that stands twice is an error: another
// reader may take the other.
func members(raw json.RawMessage) (map[string]json.RawMessage, error) {
	object, err := rawjson.Object(raw)
	if err != nil {
		return nil, err
	}
	m := make(map[string]json.RawMessage)
	for name, value := range rawjson.Members(object) {
		if _, twice := m[name]; twice {
			return m, fmt.Errorf("it says %s twice", name)
		}
		m[name] = value
	}
	return m, nil
}

func absent(value json.RawMessage) bool { return value == nil || string(value) == "null" }

func orAbsent(value json.RawMessage) string {
	if value == nil {
		return "absent"
	}
	return display.CutWords(string(value), 80)
}
