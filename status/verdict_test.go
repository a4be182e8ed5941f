package status

import (
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// Every incident has one sentence, which names the cause, its owner and the next command.
func TestVerdict(t *testing.T) {
	now := time.Date(2026, 11, 27, 16, 30, 0, 0, time.UTC)
	up := Extension{ID: "up", State: "ready", Tools: []string{"ext_up_a", "ext_up_b"}}
	beside := func(x Extension) Status { x.ID = "x"; return Status{Extensions: []Extension{up, x}} }
	alone := func(x Extension) Status { x.ID = "x"; return Status{Extensions: []Extension{x}} }
	policy := func(p Policy) Status {
		p.Name, p.Mode = "guard", governance.ModeEnforce
		return Status{Extensions: []Extension{up}, Policies: []Policy{p}}
	}
	file := func(d protocol.Diagnostic) Status {
		d.Level = protocol.LevelError
		return Status{Extensions: []Extension{up}, Diagnostics: []protocol.Diagnostic{d}}
	}
	crash := &Crash{Time: now.Add(-time.Second), Reason: "exit status 3"}
	failure := func(kind protocol.Kind, ago time.Duration) *Failure {
		return &Failure{Time: now.Add(-ago), Kind: kind, Reason: "why"}
	}
	since := func(tool string, ago time.Duration) []OpenCall { return []OpenCall{{Tool: tool, Since: now.Add(-ago)}} }
	logs := "exthost logs x"
	for name, tt := range map[string]struct {
		status Status
		word   Word
		want   []string // parts of the sentence
		next   string
	}{
		"all is well": {Status{Extensions: []Extension{up, {ID: "off", State: StateDisabled}}}, Ready,
			[]string{"1 extension with 2 tools"}, ""},
		"destinations":  {Status{Destinations: []Destination{{Extension: up}}}, Ready, []string{"1 destination"}, ""},
		"nothing there": {Status{}, Ready, []string{"no extension was found"}, "exthost init NAME"},
		"nothing enabled": {Status{Extensions: []Extension{{ID: "off", State: StateDisabled}}}, Ready,
			[]string{"every extension is disabled"}, "exthost enable off"},
		"all disabled": {Status{Extensions: []Extension{{ID: "notes", State: StateDisabled}}}, Ready,
			[]string{"every extension is disabled"}, "exthost enable notes"},
		"a slow call": {Status{
			Extensions: []Extension{up, {ID: "x", State: "ready", Slow: since("ext_x_do", time.Minute)}},
			Destinations: []Destination{
				{Extension: Extension{ID: "d", State: "ready", Slow: since("wait", 2*time.Hour)}},
			},
		}, Ready, []string{"2 extensions with 2 tools, 1 destination; a call of wait has been in flight for 2h0m0s"},
			"exthost logs d"},
		"it starts": {Status{Starting: true}, Degraded, []string{"the host is starting"},
			"exthost status --ready --wait 30s"},
		"one crash":     {beside(Extension{State: "ready", Restarts: 1, LastCrash: crash}), Ready, nil, ""},
		"a call failed": {beside(Extension{State: "ready", FailedInRow: 2, LastFailure: failure("x", 0)}), Ready, nil, ""},
		"a denied call": {beside(Extension{State: "ready", DeniedInRow: 2, LastDenial: &Denial{}}), Ready, nil, ""},
		"a lazy start":  {beside(Extension{State: "spawning"}), Ready, nil, ""},
		"an ended server": {beside(Extension{State: "restarting", Reason: "no\n connection"}), Degraded,
			[]string{"extension x is restarting: no connection"}, logs},
		"a crash loop": {beside(Extension{State: "ready", RestartsInRow: 4, LastCrash: crash}), Degraded,
			[]string{"extension x keeps crashing, 4 restarts so far: exit status 3"}, logs},
		"a crash loop, given up": {alone(Extension{State: "failed", RestartsInRow: 5, LastCrash: crash}), NoCallPasses,
			[]string{"extension x keeps crashing, 5 restarts so far: exit status 3"}, logs},
		"a server that refuses a secret": {beside(Extension{
			State:         "restarting",
			Transport:     "http",
			RestartsInRow: 4,
			LastCrash: &Crash{
				Time:   now,
				Reason: "the server does not accept the secret hub; exthost secret set hub",
				Next:   "exthost secret set hub",
			},
		}), Degraded, []string{"extension x keeps losing its server, 4 restarts so far: the server does not accept " +
			"the secret hub; next: "}, "exthost secret set hub"},
		"a server that names a command": {beside(Extension{
			State:         "restarting",
			Transport:     "sse",
			RestartsInRow: 4,
			LastCrash:     &Crash{Time: now, Reason: "it said: exthost secret set hub"},
		}), Degraded, []string{"extension x keeps losing its server, 4 restarts so far: it said: exthost secret set " +
			"hub"}, logs},
		"a call with a refused secret": {beside(Extension{State: "ready", FailedInRow: 1, LastFailure: &Failure{
			Time:   now,
			Reason: "the server does not accept the secret hub; exthost secret s…",
			Next:   "exthost secret set hub",
		}}), Degraded, []string{"calls of extension x fail: the server does not accept the secret hub; next: "},
			"exthost secret set hub"},
		"a child with a refused secret": {beside(Extension{
			State:         "restarting",
			Secrets:       []string{"hub"},
			RestartsInRow: 2,
			LastCrash: &Crash{
				Time:     now,
				Reason:   "exit status 1",
				Evidence: &protocol.Evidence{Stderr: []string{"Error: 401 Unauthorized"}},
			},
		}), Degraded, []string{"exit status 1; its last words: Error: 401 Unauthorized; it is given the secret hub; "},
			"exthost secret set hub"},
		"a crash loop of yesterday": {
			beside(Extension{State: "ready", RestartsInRow: 4, LastCrash: &Crash{Time: now.Add(-time.Hour)}}), Ready,
			nil, ""},
		"a crash loop that is over": {
			beside(Extension{State: "ready", Restarts: 5, LastCrash: crash}), Ready, nil, ""},
		"a hang that is over": {
			beside(Extension{State: "ready", LastFailure: failure(protocol.CallTimeout, 0)}), Ready, nil, ""},
		"a failed start": {beside(Extension{State: "failed", Reason: "no python3"}), Degraded,
			[]string{"extension x is failed: no python3"}, logs},
		"a hang": {beside(Extension{State: "ready", FailedInRow: 1, LastFailure: failure(protocol.CallTimeout, 0)}),
			Degraded, []string{"calls of extension x time out, 1 in a row: why"}, "exthost restart x"},
		"a hang of a process that was replaced": {beside(Extension{
			State:       "ready",
			FailedInRow: 1,
			LastFailure: failure(protocol.CallTimeout, time.Second),
			Instances:   []Instance{{State: "ready", StartedAt: now}},
		}), Ready, nil, ""},
		"a timeout of an exec tool": {beside(Extension{
			State:       "ready",
			Transport:   "exec",
			FailedInRow: 3,
			LastFailure: failure(protocol.CallTimeout, time.Hour),
		}), Degraded, []string{"3 in a row", "raise call_timeout under [runtime] if it is only slow"}, logs},
		"a suspected hang": {beside(Extension{State: "ready", Instances: []Instance{{State: "ready", Doubt: "silent"}}}),
			Degraded, []string{"extension x may hang: silent"}, "exthost restart x"},
		"failed calls": {beside(Extension{State: "ready", FailedInRow: 16, LastFailure: failure("x", time.Hour)}),
			Degraded, []string{"the last 16 calls of extension x failed: why"}, logs},
		"denied calls": {beside(Extension{
			State:       "ready",
			DeniedInRow: 5,
			LastDenial:  &Denial{Decision: "d1", Reason: "policy who: no"},
		}), Degraded, []string{"the last 5 calls of extension x were denied: policy who: no"}, "exthost calls d1"},
		"a policy that does not answer": {beside(Extension{
			State:       "ready",
			DeniedInRow: 3,
			LastDenial: &Denial{
				Decision: "d1",
				Reason:   "policy guard could not decide: it did not answer; the operator brings it back with exthost rest…",
				Next:     "exthost restart policy:guard",
			},
		}), Degraded, []string{"were denied: policy guard could not decide: it did not answer; next: "},
			"exthost restart policy:guard"},
		"an open breaker": {
			beside(Extension{State: "ready", Instances: []Instance{{State: "ready", Breaker: "open", Reason: "boom"}}}),
			Degraded, []string{"the breaker of extension x is open: boom"}, logs},
		"an open breaker of the only one": {alone(Extension{
			State:       "ready",
			Instances:   []Instance{{State: "ready", Breaker: "open"}},
			LastFailure: failure("x", 0),
		}), NoCallPasses, []string{"the breaker of extension x is open: why"}, logs},
		"one of two instances": {beside(Extension{State: "ready", Instances: []Instance{{State: "ready"},
			{Key: "1", State: "failed", Reason: "boom"}}}), Degraded,
			[]string{"instance 1 of extension x is failed: boom"}, logs},
		"a missing login": {beside(Extension{State: "failed", Login: "needs login, because it ended: exthost secret login x"}),
			Degraded, []string{"extension x needs login, because it ended"}, "exthost secret login x"},
		"a missing secret": {Status{
			Extensions:  []Extension{up, {ID: "x", State: StateSkipped, Reason: "no secret TOKEN"}},
			Diagnostics: []protocol.Diagnostic{{Extension: "x", Hint: "exthost secret set TOKEN"}},
		}, Degraded, []string{"extension x is skipped: no secret TOKEN"}, "exthost secret set TOKEN"},
		"a token that has ended": {Status{Extensions: []Extension{up}, Server: &Server{RejectedTokens: Refusals{
			Last: &Refusal{Time: now, Client: "bot", Reason: "it has ended"},
		}}}, Degraded, []string{"client bot is refused: it has ended"}, "exthost client rotate bot"},
		"nobody's token": {Status{Extensions: []Extension{up}, Server: &Server{RejectedTokens: Refusals{
			Last: &Refusal{Time: now, Reason: "unknown"},
		}}}, Ready, nil, ""},
		"a dead policy": {policy(Policy{State: "failed", Required: true, Reason: "exit status 3", Process: &Extension{}}),
			NoCallPasses, []string{"policy guard is failed: exit status 3"},
			"exthost restart policy:guard"},
		"the last words of a dead policy": {policy(Policy{State: "failed", Reason: "exit status 3", Process: &Extension{
			Instances: []Instance{{
				Evidence:  &protocol.Evidence{Stderr: []string{"Error: no rules"}},
				NextRetry: new(now.Local()),
			}},
		}}), Degraded, []string{"is failed: exit status 3; its last words: Error: no rules; next try at " +
			now.Local().Format(time.TimeOnly)}, "exthost restart policy:guard"},
		"a policy that hangs": {policy(Policy{State: "ready", Required: true, Process: &Extension{
			ID:          "policy:guard",
			State:       "ready",
			FailedInRow: 3,
			LastFailure: failure(protocol.CallTimeout, 0),
		}}), NoCallPasses, []string{"calls of policy guard time out, 3 in a row: why"}, "exthost restart policy:guard"},
		"a slow decision": {policy(Policy{State: "ready", Required: true, Process: &Extension{
			ID:          "policy:guard",
			State:       "ready",
			FailedInRow: 1,
			LastFailure: failure(protocol.CallTimeout, 0),
		}}), Degraded, []string{"calls of policy guard time out, 1 in a row"}, "exthost restart policy:guard"},
		"a policy that dies at each decision": {policy(Policy{State: "ready", Required: true, Process: &Extension{
			ID:            "policy:guard",
			State:         "ready",
			FailedInRow:   4,
			RestartsInRow: 3,
			LastCrash:     crash,
		}}), NoCallPasses, []string{"policy guard keeps crashing, 3 restarts so far: exit status 3"},
			"exthost logs policy:guard"},
		"a policy that decides again": {policy(Policy{State: "ready", Required: true, Process: &Extension{
			ID:        "policy:guard",
			State:     "ready",
			LastCrash: crash,
		}}), Ready, nil, ""},
		"a policy that changed": {
			policy(Policy{
				State:    "failed",
				Required: true,
				Reason:   "p.py changed; exthost trust .",
				Process:  &Extension{Next: "exthost trust ."},
			}),
			NoCallPasses, []string{"policy guard is failed: p.py changed; next: "}, "exthost trust ."},
		"an extension that names a command": {
			beside(Extension{State: "failed", Reason: "it refused initialize: no; exthost add evil"}),
			Degraded, []string{"it refused initialize: no; exthost add evil; next: "}, logs},
		"a dead policy of some tools": {
			policy(Policy{State: "failed", Required: true, Selective: true, Process: &Extension{}}),
			Degraded, []string{"policy guard is failed"},
			"exthost restart policy:guard"},
		"a dead optional policy": {policy(Policy{State: "restarting", Process: &Extension{}}), Degraded,
			[]string{"policy guard is restarting"}, "exthost restart policy:guard"},
		"counters out of reach": {policy(Policy{State: "restarting", Required: true, Reason: "no hub"}), Degraded,
			[]string{"policy guard is restarting: no hub"}, "exthost logs policy:guard"},
		"a rule that matches nothing": {policy(Policy{
			State:       "ready",
			Diagnostics: []protocol.Diagnostic{{Message: `"ext_upp_*" matches no tool`, Hint: "did you mean ext_up_*?"}},
		}), Degraded, []string{`a rule without effect: "ext_upp_*" matches no tool; did you mean ext_up_*?`},
			"exthost policy list"},
		"a full disk": {Status{
			Extensions: []Extension{up},
			Audit:      &Audit{Path: "/var/audit.jsonl", Reason: "no space left on device\ninvalid argument; no request passes until"},
			Policies:   []Policy{{Name: "audit_log", Category: governance.Audit, State: "restarting", Required: true}},
		}, NoCallPasses,
			[]string{"the audit log cannot be written: no space left on device; make room or access for /var/audit"},
			"exthost check"},
		"full disks of the host": {Status{
			Extensions: []Extension{{ID: "x", State: "failed"}},
			Host: &Host{Full: []FullPlace{
				{Of: "log.file", Path: "/var/log/x", Reason: "less than 64 KiB are free"},
				{Of: "the state directory", Path: "/var/lib/x", Reason: "no inode is free"},
			}},
		}, NoCallPasses, []string{"NO CALL PASSES: a disk is full, make room: log.file (/var/log/x): less than 64 " +
			"KiB are free, the state directory (/var/lib/x): no inode is free (and 1 more)"}, "exthost check"},
		"a broken configuration": {
			file(protocol.Diagnostic{Code: "config_invalid", Path: "/x/exthost.yaml", Line: 3, Message: "unknown key"}),
			Degraded, []string{"the one before it stays in force: /x/exthost.yaml:3: unknown key"},
			"exthost reload"},
		"a configuration that nobody has agreed to": {
			file(protocol.Diagnostic{Code: "config_invalid", Message: "it is not trusted", Hint: "exthost trust"}),
			Degraded, []string{"the one before it stays in force: it is not trusted; next: "}, "exthost trust"},
		"code that nobody has agreed to": {Status{
			Extensions: []Extension{up},
			Diagnostics: []protocol.Diagnostic{{
				Level:     protocol.LevelWarn,
				Code:      "untrusted",
				Extension: "up",
				Message:   "it changed since it was trusted: main.py",
				Hint:      "exthost trust up",
			}},
		}, Degraded, []string{"extension up runs as it was before, because it changed since it was trusted: main.py"},
			"exthost trust up"},
		"changed code of an extension that has not started": {Status{
			Extensions: []Extension{{ID: "idle", State: "idle"}},
			Diagnostics: []protocol.Diagnostic{{
				Level:     protocol.LevelWarn,
				Code:      "untrusted",
				Extension: "idle",
				Message:   "it changed since it was trusted: main.py",
				Hint:      "exthost trust idle",
			}},
		}, Degraded, []string{"DEGRADED: extension idle may not start: it changed since it was trusted: main.py"},
			"exthost trust idle"},
		"a broken manifest of an extension that has not started": {Status{
			Extensions: []Extension{{ID: "idle", State: "idle", Path: "/x/plugin.toml"}},
			Diagnostics: []protocol.Diagnostic{{
				Level:   protocol.LevelError,
				Code:    "manifest_invalid",
				Path:    "/x/plugin.toml",
				Message: "typo",
			}},
		}, Degraded, []string{"DEGRADED: a manifest is broken: /x/plugin.toml: typo"}, "exthost reload"},
		"a broken manifest": {
			file(protocol.Diagnostic{Code: "manifest_invalid", Extension: "up", Path: "/x/plugin.toml", Message: "typo"}),
			Degraded,
			[]string{"a manifest is broken, and the build before it runs until that is mended: /x/plugin.toml: typo"},
			"exthost reload"},
		"a new manifest that is broken": {
			file(protocol.Diagnostic{Code: "manifest_invalid", Extension: "new", Path: "/x/plugin.toml", Message: "typo"}),
			Degraded, []string{"a manifest is broken: /x/plugin.toml: typo"}, "exthost reload"},
		"a recording that ended": {file(protocol.Diagnostic{Code: "ended", Message: "disk full", Hint: "calls go on"}),
			Degraded, []string{"disk full; calls go on"}, "exthost check"},
		"few files": {Status{Extensions: []Extension{up}, Host: &Host{OpenFiles: 80, MaxFiles: 90}}, Degraded,
			[]string{"the host has 80 of at most 90 files and connections open", "raise the hard limit"},
			"exthost check"},
		"few files, and what they cause": {Status{
			Extensions: []Extension{{ID: "x", State: "failed"}},
			Host:       &Host{OpenFiles: 80, MaxFiles: 90},
		}, NoCallPasses, []string{"NO CALL PASSES: the host has 80 of at most 90 files"},
			"exthost check"},
		"a start without a descriptor": {Status{
			Extensions: []Extension{up, {ID: "x", State: "restarting", Reason: "pipe2: too many open files"}},
			Host:       &Host{OpenFiles: 70, MaxFiles: 90},
		}, Degraded, []string{"the host has 70 of at most 90 files and connections open", "(and 1 more)"},
			"exthost check"},
		"an extension without a descriptor": {Status{
			Extensions: []Extension{up, {ID: "x", State: "failed", Reason: "it refused initialize: too many open files"}},
			Host:       &Host{OpenFiles: 30, MaxFiles: 90},
		}, Degraded, []string{"extension x is failed: it refused"}, logs},
		"many files": {Status{Extensions: []Extension{up}, Host: &Host{OpenFiles: 80, MaxFiles: 1024}}, Ready, nil, ""},
		"a section that needs a restart": {Status{Extensions: []Extension{up}, Restart: []string{"server", "audit"}},
			Degraded, []string{"not in force in server, audit until the host is started again"}, "exthost stop"},
		"no cluster": {Status{Extensions: []Extension{up}, Cluster: &Cluster{Name: "main", Reason: "refused"}}, Degraded,
			[]string{"the host is not connected to cluster main: refused"}, "exthost cluster check"},
		"two causes, the worst first": {Status{
			Extensions: []Extension{up, {ID: "x", State: "failed"}},
			Policies: []Policy{{Name: "p", Mode: governance.ModeEnforce, Required: true, State: "failed",
				Process: &Extension{}}},
		}, NoCallPasses, []string{"policy p is failed (and 1 more); next: "}, ""},
	} {
		v := tt.status.Judge(now)
		if v.Word != tt.word || !strings.HasPrefix(v.Text, string(v.Word)+": ") || strings.Contains(v.Text, "\n") ||
			(v.Word == Ready) != (len(v.Causes) == 0) ||
			tt.next != "" && !strings.HasSuffix(v.Text, "; next: "+tt.next) {
			t.Errorf("%s: %+v", name, v)
		}
		for _, part := range tt.want {
			if !strings.Contains(v.Text, part) {
				t.Errorf("%s: %q has no %q", name, v.Text, part)
			}
		}
		for _, o := range v.Causes {
			if o.Text == "" || !strings.HasPrefix(o.Next, "exthost ") || strings.ContainsAny(o.Next, ",;") {
				t.Errorf("%s: a cause without text or one next command: %+v", name, o)
			}
		}
	}
	long := beside(Extension{State: "failed", Reason: strings.Repeat("long ", 100)})
	if text := long.Judge(now).Text; len(text) > 2*maxCause {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
