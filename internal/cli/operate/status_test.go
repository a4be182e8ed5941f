package operate

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func TestStatusTable(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	soon := now.Add(1500 * time.Millisecond)
	past := now.Add(-time.Minute)
	later := now.Add(3 * time.Second)
	s := runningStatus{
		Serves: "stdio",
		Status: status.Status{
			Verdict: status.Verdict{Word: status.Ready, Text: "READY: all is well"},
			Version: "1.0.0",
			Diagnostics: []protocol.Diagnostic{
				{Level: protocol.LevelWarn, Code: "descriptor_changed", Extension: "one"},
				{Level: protocol.LevelError, Code: "manifest_invalid", Extension: "typo", Path: "/x/typo/plugin.toml"},
				{Level: protocol.LevelError, Code: "manifest_invalid", Extension: "typo", Path: "/x/typo/plugin.toml"},
				{Level: protocol.LevelError, Code: "manifest_invalid", Path: "/x/syntax/plugin.toml"},
				{Level: protocol.LevelError, Code: "manifest_invalid", Path: "/x/one/plugin.toml"},
				{Level: protocol.LevelWarn, Code: "duplicate_id", Extension: "twice", Path: "/x/twice/plugin.toml"},
			},
			Host: &status.Host{PID: 1, StartedAt: now.Add(-26 * time.Hour), RSS: 20 << 20},
			Extensions: []status.Extension{
				{ID: "one", Path: "/x/one/plugin.toml", State: "ready", Requests: 1200, Denied: 150, ToolErrors: 20,
					Invalid: 7, Calls: 1000, Errors: 4, Refused: 1,
					Latency: &status.Latency{
						P50: protocol.Duration(350 * time.Microsecond),
						P95: protocol.Duration(12345 * time.Microsecond),
					}, Restarts: 2,
					Instances: []status.Instance{
						{
							State:     "ready",
							Reason:    "an old story",
							PID:       7,
							StartedAt: now.Add(-90 * time.Minute),
							RSS:       3 << 30,
							Breaker:   "closed",
							Queued:    3,
						},
					}},
				{
					ID:     "back",
					State:  "restarting",
					Reason: "it died",
					Instances: []status.Instance{
						{State: "restarting", Reason: "it died", NextRetry: &soon, Breaker: "open", NextProbe: &later},
					},
				},
				{
					ID:          "two",
					State:       "ready",
					Containment: "pid namespace",
					Instances: []status.Instance{
						{Key: "0", State: "ready", PID: 8, StartedAt: now.Add(-5 * time.Second), Breaker: "closed"},
						{Key: "1", State: "failed", Reason: "spent", Breaker: "closed"},
					},
				},
				{
					ID:          "sour",
					State:       "ready",
					FailedInRow: 3,
					LastFailure: &status.Failure{
						Time:   now.Add(-time.Hour),
						Kind:   protocol.ExtensionError,
						Reason: "no access (401)",
					},
				},
				{
					ID:          "sweet",
					State:       "ready",
					FailedInRow: 2,
					LastFailure: &status.Failure{
						Time:   now.Add(-time.Hour),
						Kind:   protocol.ExtensionError,
						Reason: "no access (401)",
					},
				},
				{
					ID:          "lazy",
					State:       "restarting",
					LastFailure: &status.Failure{Time: now.Add(-12 * time.Second), Kind: protocol.CallTimeout},
					Instances: []status.Instance{
						{State: "restarting", Reason: "it died", NextRetry: &past, Breaker: "open", NextProbe: &past},
					},
				},
				{ID: "gated", State: "skipped", Reason: "no ffmpeg"},
			},
		},
	}
	s.Containment = status.Containment{
		Holds: []string{"process group", "guardian"},
		Lacks: []string{"cookie sweep: no /proc"},
	}
	want := []string{
		"READY: all is well",
		"exthost 1.0.0, pid 1, up 1d2h, 20 MiB, stdio",
		"processes held by process group + guardian; not by cookie sweep: no /proc",
		"",
		"ID|STATE|PID|UP|CALLS|DENIED|ERRORS|TOOL_ERRORS|P50|P95|RSS|RESTARTS|BREAKER|NOTE",
		"one|ready|7|1h30m|1200|150 (12.5%)|12 (1%)|20 (1.67%)|350µs|12.3ms|3 GiB|2|closed|3 calls queued; tools " +
			"changed: exthost status one, then exthost tools accept one; the manifest is broken, as exthost status " +
			"one shows, and the previous build still runs; fix it, then exthost reload",
		"back|restarting|-|-|0|0|0|0|-|-|-|0|open|it died; next try in 1.5s; breaker open, next probe in 3s",
		"two|ready|-|-|0|0|0|0|-|-|-|0|-|held by a pid namespace too; exthost status two shows more; fix it, then " +
			"exthost restart two",
		"  0|ready|8|5s|||||||-|0|closed",
		"  1|failed|-|-|||||||-|0|closed|spent",
		"sour|ready|-|-|0|0|0|0|-|-|-|0|-|a call failed 1h0m ago: no access (401)",
		"sweet|ready|-|-|0|0|0|0|-|-|-|0|-",
		"lazy|restarting|-|-|0|0|0|0|-|-|-|0|open|it died; next try with the next call; breaker open, the next call " +
			"is a probe; a call timed out 12s ago: exthost restart lazy if it hangs",
		"gated|skipped|-|-|0|0|0|0|-|-|-|0|-|no ffmpeg",
		"",
		"not run, because of errors that exthost validate shows: /x/typo/plugin.toml, /x/syntax/plugin.toml",
	}
	lines := s.table(now, console.Layout{})
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
	for i, line := range lines {
		got := regexp.MustCompile(` {2,}`).ReplaceAllString(line, "|")
		if strings.HasPrefix(line, "  ") {
			got = "  " + strings.TrimPrefix(got, "|")
		}
		// Empty columns in the row of an instance.
		got = strings.Replace(got, "8|5s|-", "8|5s|||||||-", 1)
		got = strings.Replace(got, "failed|-|-|-", "failed|-|-|||||||-", 1)
		if i >= len(want) || got != want[i] {
			t.Errorf("line %d: %s", i, got)
		}
	}
	narrow := s.table(now, console.Layout{Width: 60, Drop: expendable})
	for _, line := range narrow {
		if utf8.RuneCountInString(line) > 60 {
			t.Errorf("wider than 60: %s", line)
		}
	}
	wantNarrow := []string{
		"ID     STATE       CALLS  DENIED       ERRORS   TOOL_ERRORS",
		"one    ready       1200   150 (12.5%)  12 (1%)  20 (1.67%)",
		"    3 calls queued",
		"    tools changed: exthost status one, then exthost tools",
		"    accept one",
		"    the manifest is broken, as exthost status one shows, and",
		"    the previous build still runs; fix it, then exthost",
		"    reload",
		"back   restarting  0      0            0        0",
	}
	if diff := cmp.Diff(wantNarrow, narrow[5:14]); diff != "" {
		t.Error(diff)
	}
}

func TestComplaintIsSaidOnce(t *testing.T) {
	i := status.Instance{
		Reason:   "the process ended: exit status 1",
		Evidence: &protocol.Evidence{Stderr: []string{"error: boom", "bye"}},
	}
	if got := hosts.Condition(i, time.Now()); !slices.Equal(got, []string{i.Reason + ": error: boom"}) {
		t.Errorf("%q", got)
	}
	i.Reason = "it says: error: boom"
	if got := hosts.Condition(i, time.Now()); !slices.Equal(got, []string{i.Reason}) {
		t.Errorf("what the reason says already is said again: %q", got)
	}
}

// What is longer than the screen ends with the verdict, which its beginning would hide.
func TestLongStatusEndsWithTheVerdict(t *testing.T) {
	s := runningStatus{Status: status.Status{Verdict: status.Verdict{Word: status.Ready, Text: "READY: 9 extensions"}}}
	if got := s.again(24, 24, 80); !slices.Equal(got, []string{"", "READY: 9 extensions"}) {
		t.Errorf("%q", got)
	}
	for _, height := range []int{0, 25} { // 0: no terminal
		if got := s.again(24, height, 80); got != nil {
			t.Errorf("a height of %d: %q", height, got)
		}
	}
}

// On a terminal the note of a policy stands below its row, over the whole width.
func TestPolicyNotesStandBelow(t *testing.T) {
	s := runningStatus{Status: status.Status{
		Host: new(status.Host),
		Policies: []status.Policy{{
			Name:     "guard",
			State:    "failed",
			Required: true,
			Reason:   strings.Repeat("why ", 15) + "end",
		}},
	}}
	lines := s.table(time.Now(), console.Layout{Width: 80})
	want := "    " + strings.Repeat("why ", 15) + "end"
	if !slices.Contains(lines, want) {
		t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
	}
}

// Who is denied, by which rule, has a row with the next command; a call that takes long has a note below its extension.
func TestDenialsAndSlowCallsAreShown(t *testing.T) {
	now := time.Now()
	s := runningStatus{Status: status.Status{
		Host: new(status.Host),
		Extensions: []status.Extension{{
			ID:    "kit",
			State: "ready",
			Slow:  []status.OpenCall{{Tool: "ext_kit_wait", Caller: "bot", Since: now.Add(-42 * time.Second)}},
		}},
		Denials: []status.Denials{
			{
				Count:    3,
				Caller:   "bot",
				Policy:   "who",
				Code:     "unauthorized",
				Tool:     "ext_kit_rm",
				Decision: "0a1b2c3d4e5f6",
				Last:     now,
			},
			{Count: 1, Code: "descriptor_changed", Tool: "ext_kit_say", Last: now},
		},
	}}
	for range mostDenials {
		s.Denials = append(s.Denials, s.Denials[0])
	}
	text := strings.Join(s.table(now, console.Layout{Width: 80}), "\n")
	for _, want := range []string{
		`\n    ext_kit_wait of bot has been in flight for 42s: exthost logs kit, or\s+exthost\s+restart kit, `,
		`\nDENIED +CALLER +TOOL +BY +AGO\n`,
		`\n3 +bot +ext_kit_rm +who: unauthorized +0s\n    exthost calls 0a1b2c3d4e5f6\n`,
		`\n1 +anonymous +ext_kit_say +descriptor_changed +0s\n    exthost calls --failed\n`,
		`\nand 2 more, which -o json shows`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
