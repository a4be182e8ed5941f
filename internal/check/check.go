// Package check tries an extension the way a host does on good days and on bad
// ones, and tells its author what would go wrong.
//
//	Run ── host ────> the extension as the host runs it: manifest, offer, calls of check.json
//	    └─ wire ────> a child of its own, spoken to in raw lines: ids, noise, cancellation, its end
//
// Each thing tried is a probe, a function from a subject to an error: nil is a
// pass, a skip or a hint says so, anything else is a failure. Tools are only
// called when the author's check.json names them or they say that they only read.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Outcome is what came of a probe.
type Outcome string

// The outcomes.
const (
	Pass  Outcome = "ok"
	Fail  Outcome = "fail"
	Hint  Outcome = "hint"  // nothing is wrong, and it could be better
	Skip  Outcome = "skip"  // it could not be tried, Detail says why
	Known Outcome = "known" // it failed, as was expected
)

// Result is what came of one probe of one extension.
type Result struct {
	Extension string        `json:"extension"`
	Probe     string        `json:"probe"` // stable, kebab-case
	About     string        `json:"about"` // what should be so
	Outcome   Outcome       `json:"outcome"`
	Detail    string        `json:"detail,omitempty"` // what was found, for people; several lines
	Took      time.Duration `json:"took_ns"`
}

// Options says what is known of the extension beforehand.
type Options struct {
	Expected *Expected // probes that are known to fail; nil: none
}

// Run probes one extension of a host, in whose status it is. The error is a
// check.json that cannot be read, or ctx's.
func Run(ctx context.Context, h *exthost.Host, x status.Extension, o Options) ([]Result, error) {
	s, err := newSubject(h, x)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var results []Result
	for _, p := range probes {
		if !slices.Contains(strings.Fields(p.speaks), s.speaks) {
			continue
		}
		began := time.Now()
		err := s.broken
		if err == nil {
			err = p.run(ctx, s)
		}
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		r := Result{Extension: x.ID, Probe: p.name, About: p.about, Took: time.Since(began)}
		r.Outcome, r.Detail = judge(err)
		o.Expected.apply(&r)
		results = append(results, r)
	}
	return results, nil
}

// Failed counts the failures.
func Failed(results []Result) (n int) {
	for _, r := range results {
		if r.Outcome == Fail {
			n++
		}
	}
	return n
}

// verdict is a probe's error that is no failure, and how a pass can say more.
type verdict struct {
	outcome Outcome
	text    string
}

func (v *verdict) Error() string { return v.text }

func skipf(format string, args ...any) error { return &verdict{Skip, fmt.Sprintf(format, args...)} }
func hintf(format string, args ...any) error { return &verdict{Hint, fmt.Sprintf(format, args...)} }
func passf(format string, args ...any) error { return &verdict{Pass, fmt.Sprintf(format, args...)} }

func judge(err error) (Outcome, string) {
	if err == nil {
		return Pass, ""
	}
	if v, ok := errors.AsType[*verdict](err); ok {
		return v.outcome, v.text
	}
	return Fail, err.Error()
}

// complaints are failures, or hints, one a line; none is a pass.
func complaints(outcome Outcome, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return &verdict{outcome, strings.Join(lines, "\n")}
}

// subject is the extension under examination.
type subject struct {
	host    *exthost.Host
	status  status.Extension
	spec    runtime.Spec
	speaks  string // native, mcp, lite or exec
	fixture fixture

	broken error    // why the rest cannot be tried
	talk   *wire    // the child that most probes share; nil before, and after its death
	lapses []lapse  // of children that have ended
	mumble mumbling // what they said on stderr
}

func newSubject(h *exthost.Host, x status.Extension) (*subject, error) {
	s := &subject{host: h, status: x, speaks: x.Protocol}
	if x.Transport == manifest.KindExec {
		s.speaks = manifest.KindExec
	}
	for _, p := range []string{manifest.ProtocolNative, manifest.ProtocolMCP, manifest.ProtocolLite} {
		if strings.HasPrefix(s.speaks, p) {
			s.speaks = p // without the revision
		}
	}
	var err error
	if s.spec, err = h.Admin().Spec(x.ID); err != nil {
		return nil, err
	}
	s.fixture, err = readFixture(s.spec.Dir)
	if strings.Contains(x.ID, ".") { // one of the MCP servers beside a manifest, which share the file
		s.fixture.Calls = slices.DeleteFunc(s.fixture.Calls, func(c *fixtureCall) bool { return s.entry(c.Tool) == nil })
	}
	return s, err
}

// entries are the tools that the host has of the extension.
func (s *subject) entries() []*tools.Entry { return s.host.Tools().Extension(s.status.ID) }

// entry is the tool of that own name, nil when there is none.
func (s *subject) entry(tool string) *tools.Entry {
	e, _ := s.host.Tools().LookupIn(s.status.ID, tool)
	return e
}

// diagnostics are what the host has to say of the extension.
func (s *subject) diagnostics() (found []protocol.Diagnostic) {
	for _, d := range s.host.Status().Diagnostics {
		if d.Extension == s.status.ID || d.Path != "" && d.Path == s.status.Path {
			found = append(found, d)
		}
	}
	return found
}

// call makes a call as the host makes those of its clients.
func (s *subject) call(ctx context.Context, c *fixtureCall) (protocol.ToolResult, error) {
	e := s.entry(c.Tool)
	if e == nil {
		return nil, fmt.Errorf("%s calls %q, which the extension does not offer; it has %s", fixtureName, c.Tool, strings.Join(s.names(), ", "))
	}
	return s.host.Call(ctx, e.Name, json.RawMessage(c.Arguments))
}

func (s *subject) names() (names []string) {
	for _, e := range s.entries() {
		names = append(names, e.Tool)
	}
	return names
}
