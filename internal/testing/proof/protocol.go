package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// peers are the tests against programs of others.
const peers = "./internal/testing/peertest"

// runPeers runs tests of peertest, those that flags choose.
func runPeers(flags ...string) (suite, error) {
	if os.Getenv("EXTHOST_PEERS") == "" {
		return nil, errors.New("run .ci/peers DIR, and set EXTHOST_PEERS to DIR")
	}
	return run(nil, append(append([]string{"-timeout", "30m"}, flags...), peers)...)
}

var conformance = page{
	name:  "conformance",
	title: "Conformance to MCP",
	about: "The official conformance suite, of the version in [.ci/peers](../../.ci/peers), judges the host. The " +
		"verdict is about the scenarios that the revision requires; `printed` counts the checks of the others too.",
	write: func(r *report) error {
		s, err := runPeers("-run", "Conformance")
		if err != nil {
			return err
		}
		r.heading("As a server", "The suite calls a server of the official SDK through the host. `child` is on stdio "+
			"and has both revisions, `sessions` and `stateless` are over HTTP and have one.")
		r.tests("server and revision", "TestConformance/", s.below("TestConformance"))
		r.heading("As a server on stdio", "The same through `exthost serve --stdio`, as editors start it.")
		r.tests("revision", "TestConformanceOverTheRelay/", s.below("TestConformanceOverTheRelay"))
		r.heading("From a recording", "Every check has the same outcome when the host answers from a recording.")
		r.tests("server", "TestReplayedConformance/", s.below("TestReplayedConformance"))
		r.heading("As a client", "The suite is the server. A client of the official SDK uses all that the host lists.")
		r.tests("revision and scenario", "TestClientConformance/", s.below("TestClientConformance"))
		r.heading("As a client that signs in", "The suite is the server, and the authorization server. A user calls a "+
			"tool, and does what the error says.")
		r.table("revision", "scenarios", "verdict", "printed")
		scenarios := s.below("TestSignInConformance")
		for _, revision := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
			r.scenarios(revision, scenarios)
		}
		return nil
	},
}

// scenarios is a row for the scenarios of a revision.
func (r *report) scenarios(revision string, all suite) {
	var names, tests, printed []string
	for _, t := range all {
		if name, ok := strings.CutPrefix(t.name, "TestSignInConformance/"+revision+"/"); ok {
			names, tests = append(names, name), append(tests, t.name)
			printed = append(printed, t.printed...)
		}
	}
	r.row(revision, fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", ")), r.verdicts(all, tests),
		strings.Join(counted(printed), "; "))
}

// counted returns each text once, with how often it is there.
func counted(texts []string) (list []string) {
	slices.Sort(texts)
	for len(texts) > 0 {
		n := 1
		for n < len(texts) && texts[n] == texts[0] {
			n++
		}
		text := texts[0]
		if n > 1 {
			text = fmt.Sprintf("%d × %s", n, text)
		}
		list, texts = append(list, text), texts[n:]
	}
	return list
}

var compatibility = page{
	name:  "compatibility",
	title: "Clients and servers of others",
	about: "Programs of other projects, of the versions that [.ci/peers](../../.ci/peers) installs, against this " +
		"host. `legacy` is 2025-11-25, `modern` is 2026-07-28, with `auto` the client chooses.",
	write: func(r *report) error {
		s, err := runPeers("-skip", "Conformance")
		if err != nil {
			return err
		}
		r.heading("Clients", "Each lists the bundled tools and calls some, also with wrong arguments.")
		r.matrix("client", "TestClients", s, func(parts []string) (string, string) {
			return parts[0], parts[1] + " " + parts[2]
		})
		r.heading("Servers", "Each runs unchanged as an extension, and lists and answers as it does without the host.")
		r.matrix("server", "TestServers", s, func(parts []string) (string, string) {
			return parts[2], parts[0] + " " + parts[1]
		})
		r.heading("What else is tested with them", "In [peertest](../../internal/testing/peertest).")
		r.tests("test", "", s.tops())
		return nil
	},
}

// matrix is a table of the tests below one: a row for each program, with the transports and versions that it passed.
func (r *report) matrix(what, top string, s suite, split func(parts []string) (program, endpoint string)) {
	type line struct{ passed, other, printed []string }
	lines := make(map[string]*line)
	var order []string
	for _, t := range s.below(top) {
		parts := strings.Split(strings.TrimPrefix(t.name, top+"/"), "/")
		if len(parts) != 3 {
			continue
		}
		program, endpoint := split(parts)
		l := lines[program]
		if l == nil {
			l = new(line)
			lines[program], order = l, append(order, program)
		}
		l.printed = append(l.printed, t.printed...)
		if v := r.verdict(t.name, t.verdict); v == "passed" {
			l.passed = append(l.passed, endpoint)
		} else {
			l.other = append(l.other, endpoint+" "+v)
		}
	}
	r.table(what, "passed over", "otherwise", "printed")
	for _, program := range order {
		l := lines[program]
		slices.Sort(l.printed)
		r.row("`"+program+"`", strings.Join(l.passed, ", "), strings.Join(l.other, ", "),
			strings.Join(slices.Compact(l.printed), "; "))
	}
}
