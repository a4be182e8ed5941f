package stats

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func endedCall(outcome status.Outcome) *Ended {
	return &Ended{
		At: time.Now(),
		CallEvent: status.CallEvent{
			Extension: "x",
			Tool:      "ext_x_t",
			Method:    protocol.MethodToolsCall,
			Outcome:   outcome,
		},
		Entry:  true,
		Served: 20 * time.Millisecond,
	}
}

// The latest calls are recorded with their payloads. Older calls are dropped, and their bytes do not show up in calls
// that reuse their buffers.
func TestLatestCallsAreKept(t *testing.T) {
	p := &History{Mask: func(s string) string { return strings.ReplaceAll(s, "canary", "***") }}
	long := `{"text":"` + strings.Repeat("l", maxText-len(`{"text":"`)-3) + `canary"}`
	var last uint64
	for range keptCalls {
		e := endedCall(status.OutcomeOK)
		e.Request, e.Response = json.RawMessage(long),
			json.RawMessage(`{"token":"ghp_0123456789abcdefghijABCDEFGHIJ012345"}`)
		last = p.End(e)
	}
	call, err := p.Call(1)
	if err != nil || len(call.Request.Text) != maxText || !strings.HasSuffix(call.Request.Text, "l***") ||
		call.Request.Bytes != len(long) || !call.Request.Cut {
		t.Errorf("%+v, %v", call.Request, err)
	}
	if strings.Contains(call.Response.Text, "ghp_0123") || call.Response.Cut {
		t.Errorf("%+v", call.Response)
	}
	failed := endedCall("rejected")
	failed.Request, failed.Err = json.RawMessage(`{}`), errors.New("no "+strings.Repeat("x", 9999))
	id := p.End(failed)
	if call, err := p.Call(id); id != last+1 || err != nil || call.Request.Text != `{}` || call.Response != nil ||
		len(call.Message) != maxMessage {
		t.Errorf("%d: %+v, %v", id, call, err)
	}
	for _, gone := range []uint64{0, 1, id + 1} {
		if _, err := p.Call(gone); protocol.KindOf(err) != protocol.ToolNotFound {
			t.Errorf("call %d: %v", gone, err)
		}
	}
	list := p.Calls(1000)
	if len(list) != keptCalls || list[0].ID != id || list[0].Request != nil || list[keptCalls-1].ID != 2 ||
		len(p.Calls(3)) != 3 {
		t.Errorf("%d calls are listed, the first %+v", len(list), list[0])
	}
	if diff := cmp.Diff(&status.ToolUse{Calls: keptCalls + 1, Denied: 1}, p.Use("x", "ext_x_t"),
		cmp.Transformer("", func(u *status.ToolUse) status.ToolUse {
			timeless := *u
			timeless.Latency = nil
			return timeless
		})); diff != "" {
		t.Error(diff)
	}
	if u := p.Use("x", "ext_x_t"); u.Latency == nil || time.Duration(u.Latency.P50) < 15*time.Millisecond ||
		p.Use("x", "other") != nil {
		t.Errorf("%+v", u)
	}
}

// A step with samples of the load but without calls has a point too. The highest sample of a step counts.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p History
		ctx, cancel := context.WithCancel(t.Context())
		busy := int64(3)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Sample(ctx, func() (int64, int64) { busy--; return 1 << 20, busy }, func() bool { return false })
		}()
		time.Sleep(3*hour.step + time.Second)
		cancel()
		<-ended
		got := p.Series("")
		if len(got.Points) != 3 || got.Points[0].Busy != 2 || got.Points[2].Busy != 0 ||
			got.Points[2].Memory != 1<<20 || got.Points[2].Calls != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// The load of an idle host is not read in every step, but every step has a point.
func TestSamplesOfIdleHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p History
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Sample(ctx, func() (int64, int64) { return 1 << 20 * asked.Add(1), 0 }, func() bool { return true })
		}()
		after := func(steps, asks, points int) {
			t.Helper()
			time.Sleep(time.Duration(steps) * hour.step)
			if got := p.Series(""); asked.Load() != int64(asks) || len(got.Points) != points {
				t.Errorf("asked %d times, %d points; want %d and %d", asked.Load(), len(got.Points), asks, points)
			}
		}
		time.Sleep(time.Second)
		after(idleSteps, 1, idleSteps)
		after(1, 2, idleSteps+1)
		p.End(endedCall(status.OutcomeOK))
		after(1, 3, idleSteps+2)
		after(1, 3, idleSteps+3)
		cancel()
		<-ended
	})
}

// The history has a point for each step with calls of the last hour, and drops older ones.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p History
		p.End(endedCall(status.OutcomeOK))
		time.Sleep(hour.step)
		for _, outcome := range []status.Outcome{
			status.OutcomeOK,
			status.OutcomeToolError,
			"rejected",
			"governance_unavailable",
			"overloaded",
			"invalid_arguments",
		} {
			p.End(endedCall(outcome))
		}
		got := p.Series("")
		if len(got.Points) != 2 || got.Points[0].Calls != 1 ||
			got.Points[1].Time.Sub(got.Points[0].Time) != time.Duration(got.Step) {
			t.Fatalf("%+v", got)
		}
		point := got.Points[1]
		if point.Calls != 6 || point.Denied != 2 || point.Errors != 2 || point.ToolErrors != 1 || point.Latency == nil {
			t.Errorf("%+v", point)
		}
		time.Sleep(hour.step*time.Duration(hour.steps) - hour.step)
		p.End(endedCall(status.OutcomeOK)) // reuses the memory of the first step
		if got := p.Series(""); len(got.Points) != 2 || got.Points[0].Calls != 6 || got.Points[1].Calls != 1 {
			t.Errorf("an hour later: %+v", got)
		}
		if got := p.Series("x"); len(got.Points) != 2 || got.Points[0].Calls != 7 || got.Points[1].Calls != 1 ||
			time.Duration(got.Step) != sixHours.step {
			t.Errorf("of the extension: %+v", got)
		}
		time.Sleep(sixHours.step * time.Duration(sixHours.steps))
		if got := p.Series("x"); len(got.Points) != 0 || len(p.Series("other").Points) != 0 {
			t.Errorf("of the extension, later: %+v", got)
		}
	})
}

// A clock that was far ahead leaves steps of the future, which must not take the places of later calls.
func TestSeriesAfterTheClockWasSetBack(t *testing.T) {
	var s series
	now := time.Now()
	for i := range hour.steps {
		s.at(now.Add(24*time.Hour+time.Duration(i)*hour.step), hour).calls.Add(1)
	}
	s.at(now, hour).calls.Add(1)
	if got := s.history(now, hour); len(got.Points) != 1 || got.Points[0].Calls != 1 {
		t.Errorf("%+v, want the one call of now", got)
	}
}

// Clients returns every session, and once each client that called without a session.
func TestClients(t *testing.T) {
	var p History
	for _, c := range []struct{ session, caller, protocol, info string }{
		{"s1", "ada", "2025-11-25", `{"name":"claude","version":"2"}`},
		{"", "bob", "2026-07-28", `{"name":"agent","version":"1"}`},
		{"", "bob", "2026-07-28", `{"name":"agent","version":"1"}`},
		{"gone", "eve", "2025-11-25", `{"name":"old"}`},
		{"", "", "", ""}, // a Go program
	} {
		e := endedCall(status.OutcomeOK)
		e.Session, e.Caller, e.Protocol, e.ClientInfo = c.session, c.caller, c.protocol, json.RawMessage(c.info)
		p.End(e)
	}
	got := p.Clients([]status.Client{
		{Name: "claude 2", Caller: "ada", Session: "s1", Protocol: "2025-11-25"},
		{Session: "quiet"},
	})
	if len(got) != 3 || got[0].LastCall == nil || got[1].LastCall != nil || got[2].Name != "agent 1" ||
		got[2].Caller != "bob" || got[2].LastCall == nil {
		t.Errorf("%+v", got)
	}
}

// A line shows no secret, not even one split by hidden characters, and no hidden characters.
func TestLine(t *testing.T) {
	p := &History{Mask: func(s string) string { return strings.ReplaceAll(s, "canary", "***") }}
	for text, want := range map[string]string{
		"no access\nwith canary":                         "no access with ***",
		"no \x1b[31maccess\x07 with can\u200bary":        "no [31maccess with ***",
		"ghp_0123456789abcdefghij\u200bABCDEFGHIJ456789": "[redacted:github-pat]",
		strings.Repeat("é", 400):                         strings.Repeat("é", 118) + "…",
	} {
		if got := p.Line(protocol.Errorf(protocol.ExtensionError, "%s", text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Denials of the last hour are counted by caller and by what denied them, with the latest of each.
func TestDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h History
		deny := func(caller, policy, code, decision string, outcome status.Outcome) {
			e := endedCall(outcome)
			e.Caller, e.Policy, e.Code, e.Decision = caller, policy, code, decision
			h.End(e)
			time.Sleep(time.Second)
		}
		began := time.Now()
		deny("bot", "who", "unauthorized", "d1", "rejected")
		deny("bot", "who", "unauthorized", "d2", "rejected")
		deny("", "who", "unauthorized", "d3", "rejected")
		deny("bot", "guard", "unavailable", "d4", "governance_unavailable")
		deny("bot", "", "", "", "descriptor_changed")
		h.End(endedCall(status.OutcomeToolError))
		row := func(n int, caller, policy, code, decision string, after time.Duration) status.Denials {
			return status.Denials{
				Count:    n,
				Caller:   caller,
				Policy:   policy,
				Code:     code,
				Decision: decision,
				Last:     began.Add(after),
				Tool:     "ext_x_t",
			}
		}
		want := []status.Denials{
			row(1, "bot", "", "descriptor_changed", "", 4*time.Second),
			row(1, "bot", "guard", "unavailable", "d4", 3*time.Second),
			row(1, "", "who", "unauthorized", "d3", 2*time.Second),
			row(2, "bot", "who", "unauthorized", "d2", time.Second),
		}
		if diff := cmp.Diff(want, h.Denials(time.Now())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := h.Denials(began.Add(denialsFor + 2500*time.Millisecond)); len(got) != 2 {
			t.Errorf("an hour later: %+v", got)
		}
		for i := range keptCalls {
			deny(strings.Repeat("c", i), "who", "unauthorized", "", "rejected")
		}
		if got := h.Denials(time.Now()); len(got) != mostDenials {
			t.Errorf("%d rows", len(got))
		}
	})
}
