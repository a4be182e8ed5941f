package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Every call of this storm has a plan made from a seed: what the caller, policies, hooks, nodes and instances do when
// that call reaches them. All hosts, nodes and services are in this process, in a synctest bubble, so deadlines cost no
// time.
//
// Invariant: an error without outcome means that no instance has executed the call or ever will. An error of the
// extension itself is an answer.

// callPlan is what happens to one call, as far as it gets.
type callPlan struct {
	ends   time.Duration // the caller's deadline, or when it cancels; 0: it waits
	cancel bool
	reads  bool // calls a tool that may be replayed
	host   string

	policies map[string]deed // by host and flow
	before   deed            // of the hook before the call, at the caller's host
	after    deed            // of the hook after the call
	observer governance.Flow // flow in which the host's observer panics; "" for none

	mu       sync.Mutex
	nodes    map[string][]deed // what happens to the attempts at a node, by node
	services map[string][]deed // what happens to the attempts at a host's service, by host
	panicked atomic.Bool       // the observer has panicked
	lost     atomic.Bool       // a node was lost
	handed   atomic.Bool       // a service may read it, or the connection to a node was lost during it
	executed atomic.Int64      // number of executions
	log      []string
}

// deed is what one participant does with a call.
type deed struct {
	what string
	wait time.Duration // before acting
}

func (d deed) String() string { return fmt.Sprintf("%s after %v", d.what, d.wait) }

// next takes the first deed of a list.
func (p *callPlan) next(of map[string][]deed, name string) deed {
	p.mu.Lock()
	defer p.mu.Unlock()
	var d deed
	if list := of[name]; len(list) > 0 {
		d, of[name] = list[0], list[1:]
	}
	p.log = append(p.log, name+": "+d.String())
	return d
}

// peek returns the name of the first deed of a list.
func (p *callPlan) peek(of map[string][]deed, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(of[name]) == 0 {
		return ""
	}
	return of[name][0].what
}

func (p *callPlan) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

// plansOf makes the plans of a seed's calls: mostly one, else several in a row for which each node behaves as for the
// first.
func plansOf(seed uint64) (list []*callPlan) {
	r := rand.New(rand.NewPCG(seed, 0))
	if r.IntN(4) != 0 {
		return []*callPlan{planOf(r)}
	}
	nodes := make(map[string][]deed)
	for _, node := range stormNodes {
		nodes[node] = slices.Repeat([]deed{{what: []string{"overloaded", "busy", "away", "lost", "lost"}[r.IntN(5)]}},
			9)
	}
	for range 6 {
		p := planOf(r)
		p.host, p.reads, p.nodes = "desk", true, maps.Clone(nodes)
		list = append(list, p)
	}
	return list
}

// planOf makes one plan. Most steps succeed, so that calls get far.
func planOf(r *rand.Rand) *callPlan {
	wait := func() time.Duration {
		return []time.Duration{
			0,
			0,
			0,
			time.Millisecond,
			300 * time.Millisecond,
			time.Second,
			4 * time.Second,
		}[r.IntN(7)]
	}
	one := func(odds int, deeds ...string) deed {
		if r.IntN(odds) != 0 {
			return deed{}
		}
		return deed{deeds[r.IntN(len(deeds))], wait()}
	}
	p := &callPlan{
		cancel:   r.IntN(2) == 0,
		reads:    r.IntN(2) == 0,
		policies: make(map[string]deed),
		nodes:    make(map[string][]deed),
		services: make(map[string][]deed),
	}
	if r.IntN(3) != 0 {
		p.ends = []time.Duration{time.Millisecond, 200 * time.Millisecond, time.Second, 2 * time.Second}[r.IntN(4)]
	}
	for _, host := range append(stormNodes, "desk") {
		p.policies[host+" request"] = one(8, "wait", "deny", "fail", "panic", "change", "respond")
		p.policies[host+" response"] = one(3, "wait", "deny", "fail", "panic", "change", "enlarge", "ask")
		for range r.IntN(4) {
			p.services[host] = append(p.services[host],
				one(2, "answer", "refuse", "fail", "garble", "overflow", "die", "die unread", "die executed", "hang",
					"cut", "cut executed"))
		}
	}
	p.host = []string{"front", "desk"}[r.IntN(2)]
	for _, node := range stormNodes {
		for range r.IntN(4) {
			p.nodes[node] = append(p.nodes[node], one(2, "overloaded", "busy", "away", "lost", "lost executed", "pass"))
		}
	}
	p.before = one(8, "wait", "deny", "change", "panic")
	p.after = one(4, "wait", "deny", "change", "panic", "context")
	if r.IntN(20) == 0 {
		p.observer = []governance.Flow{governance.Request, governance.Response}[r.IntN(2)]
	}
	return p
}

// stormNodes are the hosts with a replica. Calls are made at front, which has one, and at desk, which has none.
var stormNodes = []string{"front", "a", "b"}

// plans are the plans of the calls in flight, by the nonce in their arguments.
type plans struct {
	byNonce sync.Map
	latest  atomic.Pointer[callPlan] // for the observer, which sees no arguments
}

// of returns the plan of the call with these params.
func (s *plans) of(params json.RawMessage) *callPlan {
	nonce, _ := rawjson.Text(rawjson.Get(rawjson.Get(params, "arguments"), "nonce"))
	p, _ := s.byNonce.Load(nonce)
	plan, _ := p.(*callPlan)
	return plan
}

// pause waits unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// planned is the policy of a host.
type planned struct {
	plans *plans
	host  string
}

// Decide implements [governance.Policy].
func (o planned) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	p := o.plans.of(x.Request)
	if p == nil {
		return governance.Decision{}, nil
	}
	d := p.policies[o.host+" "+string(flow)]
	if d.what != "" {
		p.note("%s: policy of the %s: %v", o.host, flow, d)
	}
	if err := pause(ctx, d.wait); err != nil {
		return governance.Decision{}, err
	}
	payload := payloadOf(flow, x)
	switch d.what {
	case "deny":
		return governance.Decision{Action: governance.Deny}, nil
	case "ask":
		return governance.Decision{Action: governance.Ask, Expiry: time.Second}, nil
	case "fail":
		return governance.Decision{}, errors.New("it is broken")
	case "panic":
		panic("it is broken")
	case "change":
		if x.Failure == nil {
			return governance.Decision{
				Action: governance.Modify,
				JSON:   rawjson.Set(payload, "changed", json.RawMessage("true")),
			}, nil
		}
	case "enlarge":
		return governance.Decision{
			Action: governance.Modify,
			JSON:   json.RawMessage(`{"content":[],"x":"` + strings.Repeat("x", governance.DefaultMaxJSON) + `"}`),
		}, nil
	case "respond":
		return governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	return governance.Decision{}, nil
}

// handlers returns the hooks of a host.
func (s *plans) handlers(host string) (list []hooks.Handler) {
	for _, point := range []hooks.Point{hooks.BeforeToolCall, hooks.AfterToolCall, hooks.ToolCallFailed} {
		list = append(list, hooks.Handler{
			Name:    "planned",
			Point:   point,
			OnError: hooks.DenyOnError,
			Run:     func(ctx context.Context, e *hooks.Event) (*hooks.Reply, error) { return s.hook(ctx, host, e) },
		})
	}
	return list
}

// observe receives the decisions of a host, and panics if the plan says so.
func (s *plans) observe(host string) func(governance.Observation) {
	return func(o governance.Observation) {
		if p := s.latest.Load(); p != nil && p.host == host && p.observer == o.Flow {
			p.note("%s: the observer panics", host)
			p.panicked.Store(true)
			panic("a mistake")
		}
	}
}

// hook is a hook of a host.
func (s *plans) hook(ctx context.Context, host string, e *hooks.Event) (*hooks.Reply, error) {
	arguments := e.Payload
	if e.Point != hooks.BeforeToolCall {
		arguments = e.Arguments
	}
	p := s.of(rawjson.Set(json.RawMessage("{}"), "arguments", arguments))
	if p == nil || p.host != host {
		return nil, nil
	}
	d := p.after
	if e.Point == hooks.BeforeToolCall {
		d = p.before
	}
	if d.what != "" {
		p.note("%s hook: %v", e.Point, d)
	}
	if err := pause(ctx, d.wait); err != nil {
		return nil, err
	}
	switch d.what {
	case "deny":
		return &hooks.Reply{Decision: hooks.Deny, Reason: "no"}, nil
	case "panic":
		panic("it is broken")
	case "change":
		if e.Point != hooks.ToolCallFailed {
			return &hooks.Reply{Override: json.RawMessage(`{"hooked":true}`)}, nil
		}
	case "context":
		return &hooks.Reply{Context: "by the way"}, nil
	}
	return nil, nil
}

// stormServices connects a host to its service in this process.
type stormServices struct {
	plans *plans
	host  string
}

// Connect implements [runtime.Services].
func (s stormServices) Connect(context.Context, *runtime.Spec) (jsonrpc.Transport, error) {
	c := &stormService{
		stormServices: s,
		answers:       make(chan jsonrpc.Message, 64),
		requests:      make(chan jsonrpc.Message, 64),
		dead:          make(chan struct{}),
	}
	go c.serve()
	return c, nil
}

// stormService is one connection and the process behind it.
type stormService struct {
	stormServices
	requests, answers chan jsonrpc.Message
	dead              chan struct{}
	once              sync.Once
}

// ownCode is the code of the service's own error.
const ownCode = -32050

const stormTools = `{"protocol_version":1,"tools":[
	{"name":"acts","description":"Acts.","input_schema":{"type":"object"}},
	{"name":"reads","description":"Reads.","input_schema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`

var errStormDied = protocol.Errorf(protocol.ChildExited, "it died")

func (c *stormService) Read() (jsonrpc.Message, error) {
	select {
	case m := <-c.answers:
		return m, nil
	case <-c.dead:
		return jsonrpc.Message{}, errStormDied
	}
}

// Write gives the service a copy of m, which it reads later.
func (c *stormService) Write(ctx context.Context, m jsonrpc.Message) error {
	m.ID, m.Params = slices.Clone(m.ID), slices.Clone(m.Params)
	select {
	case <-c.dead:
		return errStormDied
	default:
	}
	if p := c.plans.of(m.Params); p != nil && m.Method == protocol.MethodToolsCall {
		switch p.peek(p.services, c.host) {
		case "refuse":
			p.next(p.services, c.host)
			return protocol.Errorf(protocol.NotReady, "nobody takes it")
		case "die unread":
			p.next(p.services, c.host)
			_ = c.Close()
			return errStormDied
		case "cut": // it is unknown whether it was read
			p.next(p.services, c.host)
			p.handed.Store(true)
			_ = c.Close()
			return jsonrpc.MaybeWritten(errStormDied)
		case "cut executed":
			p.next(p.services, c.host)
			p.handed.Store(true)
			p.executed.Add(1)
			_ = c.Close()
			return jsonrpc.MaybeWritten(errStormDied)
		}
	}
	select {
	case c.requests <- m:
		if p := c.plans.of(m.Params); p != nil {
			p.handed.Store(true)
		}
		return nil
	case <-c.dead:
		return errStormDied
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *stormService) Close() error {
	c.once.Do(func() { close(c.dead) })
	return nil
}

// serve answers requests concurrently.
func (c *stormService) serve() {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case m := <-c.requests:
			running.Go(func() { c.request(m) })
		case <-c.dead:
			return
		}
	}
}

func (c *stormService) request(m jsonrpc.Message) {
	switch {
	case m.ID == nil:
	case m.Method == protocol.MethodInitialize:
		c.answer(jsonrpc.Message{ID: m.ID, Result: json.RawMessage(stormTools)})
	case m.Method == protocol.MethodToolsCall:
		c.call(m)
	default:
		c.answer(jsonrpc.Message{ID: m.ID, Result: json.RawMessage("{}")})
	}
}

func (c *stormService) answer(m jsonrpc.Message) {
	select {
	case c.answers <- m:
	case <-c.dead:
	}
}

func (c *stormService) call(m jsonrpc.Message) {
	p := c.plans.of(m.Params)
	d := p.next(p.services, c.host)
	select {
	case <-time.After(d.wait):
	case <-c.dead:
		return
	}
	if d.what == "die" { // during another message: it has not executed this one
		_ = c.Close()
		return
	}
	p.executed.Add(1)
	p.note("%s: EXECUTED", c.host)
	switch d.what {
	case "fail":
		c.answer(jsonrpc.Message{
			ID:    m.ID,
			Error: json.RawMessage(fmt.Sprintf(`{"code":%d,"message":"it is Monday"}`, ownCode)),
		})
	case "garble":
		c.answer(jsonrpc.Message{ID: m.ID, Invalid: errors.New("both a result and an error")})
	case "overflow":
		fault := protocol.Errorf(protocol.LineTooLong, "its answer is too long")
		fault.Outcome = "unknown"
		c.answer(jsonrpc.Message{ID: m.ID, Invalid: fault})
	case "die executed":
		_ = c.Close()
	case "hang":
	default:
		c.answer(jsonrpc.Message{ID: m.ID, Result: json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)})
	}
}

// stormNode is a node with a bad connection.
type stormNode struct {
	*webNode
	plans   *plans
	offered *atomic.Value
}

// Offer tells others only what is new, as each host offers again when it is told.
func (n stormNode) Offer(list []peers.Offer) {
	if told := fmt.Sprint(list); n.offered.Swap(told) != told {
		n.webNode.Offer(list)
	}
}

// Call implements [peers.Cluster]: an error without outcome means that the other node never ran the call.
func (n stormNode) Call(ctx context.Context, c *peers.Call) (json.RawMessage, error) {
	p := n.plans.of(c.Params)
	if p == nil {
		return n.webNode.Call(ctx, c)
	}
	d := p.next(p.nodes, c.Place.Node)
	unknown := func(kind protocol.Kind) error {
		p.handed.Store(true)
		p.lost.Store(p.lost.Load() || kind == protocol.NodeLost)
		return &protocol.Error{Kind: kind, Outcome: "unknown", Message: "the call may have taken effect"}
	}
	if pause(ctx, d.wait) != nil {
		return nil, unknown(protocol.KindOf(ctx.Err()))
	}
	switch d.what {
	case "overloaded":
		return nil, protocol.Errorf(protocol.Overloaded, "it is full")
	case "busy":
		return nil, &protocol.Error{Kind: protocol.BreakerOpen, Message: "open", RetryAfter: time.Second}
	case "away":
		return nil, protocol.Errorf(protocol.NotReady, "it did not get the call: %w", peers.ErrAway)
	case "lost":
		return nil, unknown(protocol.NodeLost)
	}
	type outcome struct {
		result json.RawMessage
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		result, err := n.webNode.Call(ctx, c)
		ended <- outcome{result, err}
	}()
	select {
	case o := <-ended:
		if d.what == "lost executed" {
			return nil, unknown(protocol.NodeLost)
		}
		if o.err == nil { // also if a policy of the node has answered, which is not visible here
			p.handed.Store(true)
		}
		return o.result, o.err
	case <-ctx.Done():
		return nil, unknown(protocol.KindOf(ctx.Err()))
	}
}

const stormManifest = `[capabilities]
tools = ["acts", "reads"]
[transport]
kind = "nats"
[runtime]
call_timeout = "5s"
[runtime.restart]
max_attempts = -1
base_backoff = 0
`

// settling is longer than any wait in a plan, and than a breaker stays open.
const settling = 30 * time.Second

// openStorm opens the hosts of a storm and returns those at which calls are made.
func openStorm(t *testing.T, s *plans) map[string]*exthost.Host {
	w, hosts := newWeb(), make(map[string]*exthost.Host)
	for _, name := range append(stormNodes, "desk") {
		f := hosttest.NewFolder(t)
		if name != "desk" {
			f.Add("x", stormManifest)
		}
		cfg := f.Config()
		cfg.Extensions.Defaults.Replay = manifest.ReplayIdempotent
		hosts[name] = f.OpenWith(cfg, exthost.Options{
			Cluster:  stormNode{w.node(name, peers.AsReplicas), s, new(atomic.Value)},
			Services: stormServices{s, name},
			Policies: []governance.Member{member("planned", governance.Content, planned{s, name})},
			Observe:  s.observe(name),
			Hooks:    s.handlers(name),
		})
	}
	for _, name := range []string{"front", "desk"} {
		awaitTool(t, hosts[name], "ext_x_acts", true)
	}
	return hosts
}

// stormCall makes the call of a plan.
func stormCall(t *testing.T, h *exthost.Host, p *callPlan, nonce string) *protocol.Error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switch {
	case p.ends > 0 && p.cancel:
		time.AfterFunc(p.ends, cancel)
	case p.ends > 0:
		ctx, cancel = context.WithTimeout(ctx, p.ends)
		defer cancel()
	}
	tool := "ext_x_acts"
	if p.reads {
		tool = "ext_x_reads"
	}
	_, err := h.Call(ctx, tool, json.RawMessage(`{"nonce":"`+nonce+`"}`))
	e, _ := errors.AsType[*protocol.Error](err)
	return e
}

// wrong describes a violated invariant; "" if there is none.
func (p *callPlan) wrong(e *protocol.Error) string {
	ran := p.executed.Load()
	switch {
	case e != nil && e.Kind == protocol.ExtensionError && e.Code != ownCode && !p.panicked.Load():
		return "the host broke off by itself"
	case e != nil && e.Outcome == "" && e.Code != ownCode && ran > 0:
		return "an error without an outcome promises that the call never ran"
	case e != nil && e.Outcome == "" && e.Code == ownCode && ran == 0:
		return "an error of the extension, which never had the call"
	case e != nil && e.Outcome != "" && !p.handed.Load():
		return "a call that was given to nobody may not have run"
	case ran > 1 && !p.reads:
		return "a call that may not be repeated ran more than once"
	case ran > 2 && !p.lost.Load() || ran > 4: // the node may repeat it, and so may the host that lost the node
		return "a call was sent again too often"
	}
	return ""
}

// TestOutcomeStorm makes the calls of each seed. EXTHOST_STORM_SEED=N runs one seed and logs what happened.
func TestOutcomeStorm(t *testing.T) {
	first, seeds := uint64(1), uint64(stormtest.Sized(100, 10_000))
	one := os.Getenv("EXTHOST_STORM_SEED")
	if one != "" {
		var err error
		if first, err = strconv.ParseUint(one, 10, 64); err != nil {
			t.Fatal(err)
		}
		seeds = 1
	}
	synctest.Test(t, func(t *testing.T) {
		s := new(plans)
		hosts := openStorm(t, s)
		seen := make(map[string]int)
		for seed := first; seed < first+seeds; seed++ {
			list := plansOf(seed)
			ended := make([]*protocol.Error, len(list))
			for n, p := range list {
				s.byNonce.Store(strconv.Itoa(n), p)
				s.latest.Store(p)
				ended[n] = stormCall(t, hosts[p.host], p, strconv.Itoa(n))
			}
			// in the bubble: by then everything planned has happened, and what died has restarted
			time.Sleep(settling)
			synctest.Wait()
			for n, p := range list {
				e, what := ended[n], "a result"
				if e != nil {
					what = strings.TrimSpace(string(e.Kind) + " " + e.Outcome)
				}
				seen[what]++
				wrong := p.wrong(e)
				if wrong != "" || one != "" {
					t.Logf("call %d, %s: %v; executed %d times; %s\n\t%s", n+1, what, e, p.executed.Load(),
						p.deadline(), strings.Join(p.log, "\n\t"))
				}
				if wrong != "" {
					t.Errorf("seed %d: %s; EXTHOST_STORM_SEED=%d repeats it", seed, wrong, seed)
				}
			}
		}
		t.Logf("%d seeds: %v", seeds, seen)
	})
}

// deadline tells when the caller gives up.
func (p *callPlan) deadline() string {
	switch {
	case p.ends == 0:
		return "the caller waits"
	case p.cancel:
		return fmt.Sprintf("the caller cancels after %v", p.ends)
	}
	return fmt.Sprintf("the caller has a deadline of %v", p.ends)
}
