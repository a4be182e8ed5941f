// Package check tests an extension under normal and adverse conditions and reports problems to its author.
//
//	Run ── host ───────> the extension in the host: manifest, tools, calls of check.json
//	    └─ rawclient ──> a separate process: ids, stdout, cancellation, exit
//
// Each test is a probe, a method of a subject that returns an error: nil is a pass, an outcomeError is a skip, hint or
// pass, and any other error is a failure. Probes call only tools that the author's check.json names or that are
// annotated as read-only.
package check

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Options configure Run.
type Options struct {
	Expected *Expected // probes that are expected to fail; nil: none
	Sandbox  bool      // also report what the sandbox of the extension denies
}

// Run probes extension x of h. It returns an error for an invalid check.json and for the end of ctx.
func Run(ctx context.Context, h *exthost.Host, x status.Extension, o Options) ([]Result, error) {
	s, err := newSubject(h, x)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var results []Result
	for _, p := range s.probes() {
		if !slices.Contains(strings.Fields(p.protocols), s.protocol) || p.name == probeOfSandbox && !o.Sandbox {
			continue
		}
		began := time.Now()
		err := s.skipRest
		if err == nil {
			err = p.run(ctx)
		}
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		r := Result{Extension: x.ID, Probe: p.name, About: p.about, Took: protocol.Duration(time.Since(began))}
		r.Outcome, r.Detail = outcomeOf(err)
		if r.Outcome == Fail && s.shared != nil && s.shared.Dead() {
			s.close() // the failure tells of its end
		}
		r.Detail = s.masks.String(r.Detail)
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
