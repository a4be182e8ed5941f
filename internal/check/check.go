// Package check tests an extension under normal and adverse conditions and reports problems
// to its author.
//
//	Run ── host ───────> the extension in the host: manifest, tools, calls of check.json
//	    └─ rawclient ──> a separate process: ids, stdout, cancellation, exit
//
// Each test is a probe, a function from a subject to an error: nil is a pass, an
// outcomeError is a skip, hint or pass, and any other error is a failure. Probes call only
// tools that the author's check.json names or that are annotated as read-only.
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
	"github.com/exthost/exthost/internal/rawclient"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Outcome is the result of a probe.
type Outcome string

// The outcomes.
const (
	Pass  Outcome = "ok"
	Fail  Outcome = "fail"
	Hint  Outcome = "hint"  // correct, but could be better
	Skip  Outcome = "skip"  // not tested; Detail says why
	Known Outcome = "known" // failed as expected
)

// Result is the result of one probe of one extension.
type Result struct {
	Extension string        `json:"extension"`
	Probe     string        `json:"probe"` // stable, kebab-case
	About     string        `json:"about"` // the property that the probe checks
	Outcome   Outcome       `json:"outcome"`
	Detail    string        `json:"detail,omitempty"` // for people; several lines
	Took      time.Duration `json:"took_ns"`
}

// Options configure Run.
type Options struct {
	Expected *Expected // probes that are expected to fail; nil: none
}

// Run probes the extension with status x of h. The error is that of an invalid check.json,
// or of ctx.
func Run(ctx context.Context, h *exthost.Host, x status.Extension, o Options) ([]Result, error) {
	s, err := newSubject(h, x)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var results []Result
	for _, p := range probes {
		if !slices.Contains(strings.Fields(p.protocols), s.protocol) {
			continue
		}
		began := time.Now()
		err := s.skipRest
		if err == nil {
			err = p.run(ctx, s)
		}
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		r := Result{Extension: x.ID, Probe: p.name, About: p.about, Took: time.Since(began)}
		r.Outcome, r.Detail = outcomeOf(err)
		o.Expected.apply(&r)
		results = append(results, r)
	}
	return results, nil
}

// Failed returns the number of failures.
func Failed(results []Result) (n int) {
	for _, r := range results {
		if r.Outcome == Fail {
			n++
		}
	}
	return n
}

// outcomeError is the error of a probe whose outcome is not a failure. With Pass it adds a
// detail.
type outcomeError struct {
	outcome Outcome
	text    string
}

func (v *outcomeError) Error() string { return v.text }

func skipf(format string, args ...any) error {
	return &outcomeError{Skip, fmt.Sprintf(format, args...)}
}
func hintf(format string, args ...any) error {
	return &outcomeError{Hint, fmt.Sprintf(format, args...)}
}
func passf(format string, args ...any) error {
	return &outcomeError{Pass, fmt.Sprintf(format, args...)}
}

func outcomeOf(err error) (Outcome, string) {
	if err == nil {
		return Pass, ""
	}
	if v, ok := errors.AsType[*outcomeError](err); ok {
		return v.outcome, v.text
	}
	return Fail, err.Error()
}

// issues returns an error with one line per issue, nil when there is none.
func issues(outcome Outcome, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return &outcomeError{outcome, strings.Join(lines, "\n")}
}

// subject is the extension that is tested.
type subject struct {
	host     *exthost.Host
	status   status.Extension
	spec     runtime.Spec
	protocol string // native, mcp, lite or exec
	fixture  fixture

	skipRest   error             // set when no further probe can run
	shared     *rawclient.Client // the process that most probes share; nil before the first and after close
	violations []string          // of processes that have ended
	stderr     stderrLines
}

func newSubject(h *exthost.Host, x status.Extension) (*subject, error) {
	s := &subject{host: h, status: x, protocol: x.Protocol}
	if x.Transport == manifest.KindExec {
		s.protocol = manifest.KindExec
	}
	for _, p := range []string{manifest.ProtocolNative, manifest.ProtocolMCP, manifest.ProtocolLite} {
		if strings.HasPrefix(s.protocol, p) {
			s.protocol = p // without the revision
		}
	}
	var err error
	if s.spec, err = h.Admin().Spec(x.ID); err != nil {
		return nil, err
	}
	s.fixture, err = readFixture(s.spec.Dir)
	if strings.Contains(x.ID, ".") { // an MCP server of .mcp.json, which shares check.json with others
		s.fixture.Calls = slices.DeleteFunc(s.fixture.Calls, func(c *fixtureCall) bool { return s.entry(c.Tool) == nil })
	}
	return s, err
}

// entries returns the extension's tools in the host's catalog.
func (s *subject) entries() []*tools.Entry { return s.host.Tools().Extension(s.status.ID) }

// entry returns the tool with this own name, nil when there is none.
func (s *subject) entry(tool string) *tools.Entry {
	e, _ := s.host.Tools().LookupIn(s.status.ID, tool)
	return e
}

// diagnostics returns the host's diagnostics about the extension.
func (s *subject) diagnostics() (found []protocol.Diagnostic) {
	for _, d := range s.host.Status().Diagnostics {
		if d.Extension == s.status.ID || d.Path != "" && d.Path == s.status.Path {
			found = append(found, d)
		}
	}
	return found
}

// call makes a call through the host.
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
