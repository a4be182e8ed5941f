// Package faults injects failures into calls, so that agents can be tested against them.
package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/manifest"
)

// Rule makes calls of a tool fail. The first rule that matches a tool applies. A call fails in one way at most, so the
// probabilities add up to at most 1.
type Rule struct {
	Tool string `json:"tool"` // pattern of registered names, such as ext_git_*
	// probability, from 0 to 1, that the process is killed before it answers
	Crash Share `json:"crash,omitempty"`
	// probability that no answer comes: the call ends by call_timeout or its caller
	Hang Share `json:"hang,omitempty"`
	// probability that the call is carried out, but its answer cannot be read
	Garbage Share `json:"garbage,omitempty"`
	Huge    Share `json:"huge,omitempty"`  // probability that the answer has 4 MiB of text more
	Noise   Share `json:"noise,omitempty"` // probability that 20 log messages come before the answer
	// delay before each call; default none
	Slow manifest.Duration `json:"slow,omitzero"`
	// seed of the draws: with the same seed the same calls of a tool fail; default 0
	Seed int `json:"seed,omitempty"`
}

// Share is the probability that a call fails in one way.
type Share float64

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Share) UnmarshalText(text []byte) error {
	p, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(p >= 0 && p <= 1) { // NaN is neither
		return fmt.Errorf("%q is no probability from 0 to 1", text)
	}
	*s = Share(p)
	return nil
}

// Kind is a way to fail; "" means no failure.
type Kind string

// The ways to fail.
const (
	Crash   Kind = "crash"
	Hang    Kind = "hang"
	Garbage Kind = "garbage"
	Huge    Kind = "huge"
	Noise   Kind = "noise"
)

// share pairs a kind with its probability.
type share struct {
	kind Kind
	p    Share
}

func (r *Rule) shares() []share {
	return []share{{Crash, r.Crash}, {Hang, r.Hang}, {Garbage, r.Garbage}, {Huge, r.Huge}, {Noise, r.Noise}}
}

// String describes the rule, such as "crash 0.1, slow 2s".
func (r *Rule) String() string {
	var parts []string
	for _, s := range r.shares() {
		if s.p > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", s.kind, s.p))
		}
	}
	if r.Slow > 0 {
		parts = append(parts, fmt.Sprintf("slow %v", time.Duration(r.Slow)))
	}
	return strings.Join(parts, ", ")
}

// Problem is an error in a rule.
type Problem struct {
	Rule          int    // index in the list
	Field         string // "" for the whole rule
	Message, Hint string
}

// Check returns the errors in rules.
func Check(rules []Rule) (list []Problem) {
	for n := range rules {
		r := &rules[n]
		add := func(field, message, hint string) {
			list = append(list, Problem{Rule: n, Field: field, Message: message, Hint: hint})
		}
		if err := glob.Check(r.Tool); r.Tool == "" || err != nil {
			add("tool", fmt.Sprintf("%q is no pattern of tools", r.Tool), "such as ext_git_*")
		}
		sum := Share(0)
		for _, s := range r.shares() {
			sum += s.p
		}
		switch {
		case sum > 1.000001: // ten times 0.1 is a little more than 1
			add("", fmt.Sprintf("the probabilities add up to %v: a call fails in one way", sum),
				"together at most 1")
		case sum == 0 && r.Slow == 0:
			add("", "has no effect",
				"state crash, hang, garbage, huge or noise as a probability, or slow as a duration")
		}
	}
	return list
}

// Injector decides which calls fail. It is safe for concurrent use. A nil Injector injects nothing.
type Injector struct {
	rules []Rule

	mu    sync.Mutex        // guards drawn
	drawn map[string]uint64 // calls so far by tool name, for tools that match a rule
}

// maxDrawn limits the names in drawn, because clients of a destination choose them. All later names share one
// counter.
const maxDrawn = 10_000

// New returns an injector for rules, or nil if there are none. If before, which may be nil, has the same rules, New
// returns before, so that a reload does not restart the draws.
func New(rules []Rule, before *Injector) *Injector {
	switch {
	case len(rules) == 0:
		return nil
	case before != nil && reflect.DeepEqual(rules, before.rules):
		return before
	}
	return &Injector{rules: slices.Clone(rules), drawn: make(map[string]uint64)}
}

// Fault is the failure of one call.
type Fault struct {
	Kind Kind
	Slow time.Duration
	Key  string // configuration key of the rule, such as inject[0]
}

// count returns the name that a call of tool is counted under, and the number of earlier calls.
func (i *Injector) count(tool string) (name string, before uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.drawn[tool]; !known && len(i.drawn) >= maxDrawn {
		tool = ""
	}
	before = i.drawn[tool]
	i.drawn[tool]++
	return tool, before
}

// Next returns the fault of the next call of a tool, given its registered name. The fault depends only on the rule, the
// name and the number of earlier calls of the tool.
func (i *Injector) Next(tool string) Fault {
	if i == nil {
		return Fault{}
	}
	n := slices.IndexFunc(i.rules, func(r Rule) bool { return glob.Match(r.Tool, tool) })
	if n < 0 {
		return Fault{}
	}
	tool, call := i.count(tool)
	r := &i.rules[n]
	f := Fault{Slow: time.Duration(r.Slow), Key: fmt.Sprintf("inject[%d]", n)}
	name := fnv.New64a()
	_, _ = name.Write([]byte(tool))
	draw := Share(rand.New(rand.NewPCG(uint64(r.Seed)^name.Sum64(), call)).Float64())
	for _, s := range r.shares() {
		if draw -= s.p; draw < 0 {
			f.Kind = s.kind
			break
		}
	}
	return f
}
