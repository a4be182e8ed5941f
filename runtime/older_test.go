//go:build unix

package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// legacyOnly answers a handshake that begins with initialize.
const legacyOnly = `; answer {"protocolVersion":"2025-06-18","capabilities":{}}; until tools/list; ` +
	`answer {"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}; echo`

// patientSpec returns the spec of a server whose log does not depend on how fast the machine is.
func patientSpec(t *testing.T, script string) Spec {
	s := mcpSpec(t, script, manifest.MCPVersionAuto)
	s.probeTimeout, s.slowStart = time.Hour, time.Hour
	return s
}

// TestServerThatEndsAtDiscover has servers that end when server/discover is their first request. Each is started once
// more within the same run, and its log shows one start. With InitializeFirst it is started once.
func TestServerThatEndsAtDiscover(t *testing.T) {
	for _, way := range []string{"exit", "null", "close"} {
		t.Run(way, func(t *testing.T) {
			fault(t)
			s := patientSpec(t, "older "+way+legacyOnly)
			log := logTo(&s)
			r := start(t, s)
			h := r.Handshake()
			if h.ProtocolVersion != protocol.MCP20250618 || !h.InitializeFirst {
				t.Errorf("%+v", h)
			}
			if _, err := r.callTool(); err != nil {
				t.Error(err)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			wantContains(t, log.String(), "is started again, with initialize first", "what is server/discover?")
			// the line of the second process may be read after its handshake, and is then logged as any line
			above := 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=DEBUG") {
					continue
				}
				if above++; above > 1 || !strings.Contains(line, `msg="a server starts"`) {
					t.Errorf("logged above debug: %s", line)
				}
			}

			s.InitializeFirst = true
			again := logTo(&s)
			if h := start(t, s).Handshake(); h.ProtocolVersion != protocol.MCP20250618 || !h.InitializeFirst {
				t.Errorf("%+v", h)
			}
			if strings.Contains(again.String(), "server/discover") {
				t.Errorf("started with server/discover again: %s", again)
			}
		})
	}
}

// TestProgramThatAlwaysEnds has a program that ends at every first request. The run fails with the end of the second
// process, whose lines alone are logged above debug.
func TestProgramThatAlwaysEnds(t *testing.T) {
	fault(t)
	s := patientSpec(t, "err no API key; read; exit 3")
	log := logTo(&s)
	err := launch(t, s).end(protocol.ChildExited)
	wantContains(t, err.Error(), "during the handshake", "exit status 3")
	if n := strings.Count(log.String(), `level=WARN msg="no API key"`); n != 1 {
		t.Errorf("its line is logged %d times: %s", n, log)
	}
}

// TestNoSecondStart has servers end where server/discover is not to blame.
func TestNoSecondStart(t *testing.T) {
	for name, c := range map[string]struct{ script, version string }{
		"legacy alone": {"err starts; read; exit 3", protocol.MCP20251125},
		"modern alone": {"err starts; read; exit 3", protocol.MCP20260728},
		"discover was answered": {`err starts; read; answer {"supportedVersions":["2026-07-28"]}; until tools/list; exit 3`,
			manifest.MCPVersionAuto},
	} {
		t.Run(name, func(t *testing.T) {
			fault(t)
			s := patientSpec(t, c.script)
			s.Manifest.Transport.MCPVersion = c.version
			log := logTo(&s)
			launch(t, s).end(protocol.ChildExited)
			if n := strings.Count(log.String(), "starts"); n != 1 {
				t.Errorf("%d starts: %s", n, log)
			}
		})
	}
}

// TestKillEndsTheHandshake kills a server that has got server/discover: it is not started again.
func TestKillEndsTheHandshake(t *testing.T) {
	fault(t)
	m := newMeeting(t)
	s := mcpSpec(t, "read; sync asked; hang", manifest.MCPVersionAuto)
	s.Env = append(s.Env, m.env())
	log := logTo(&s)
	r := launch(t, s)
	goOn := m.await("asked")
	defer goOn()
	r.Kill()
	r.end(protocol.ChildExited)
	if strings.Contains(log.String(), "started again") {
		t.Error(log)
	}
}
