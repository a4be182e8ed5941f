package interceptorpolicy_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// behaves answers as the interceptor's name says, which is one of the behaviours that the
// conformance cases of SEP-2624 are made of.
func behaves(_ context.Context, name, params string) (string, error) {
	payload := rawjson.Get(json.RawMessage(params), "payload")
	arguments := rawjson.Get(payload, "arguments")
	note, has := rawjson.Text(rawjson.Get(arguments, "note"))
	behaviour, _, _ := strings.Cut(name, " ")
	switch {
	case behaviour == "allow",
		behaviour == "needs-note" && note != "",
		behaviour == "needs-upper" && note == strings.ToUpper(note):
		return `{"type":"validation","valid":true}`, nil
	case behaviour == "upper" && has:
		changed := rawjson.Set(payload, "arguments",
			rawjson.Set(arguments, "note", rawjson.Quote(strings.ToUpper(note))))
		return `{"type":"mutation","modified":true,"payload":` + string(changed) + `}`, nil
	case behaviour == "upper":
		return `{"type":"mutation","modified":false,"payload":` + string(payload) + `}`, nil
	case strings.HasPrefix(behaviour, "add-"):
		changed := rawjson.Set(payload, "arguments",
			rawjson.Set(arguments, "note", rawjson.Quote(note+strings.TrimPrefix(behaviour, "add-"))))
		return `{"modified":true,"payload":` + string(changed) + `}`, nil
	case behaviour == "crash":
		return "", protocol.Errorf(protocol.ExtensionError, "it crashed")
	}
	return `{"type":"validation","valid":false,"severity":"error","messages":[{"message":"refused","severity":"error"}]}`, nil
}

// TestChain runs several interceptors in the cases that the conformance suite of SEP-2624
// has for invokers, and in some more.
func TestChain(t *testing.T) {
	const request, response = governance.Request, governance.Response
	said := func(note string) string { return `{"name":"echo","arguments":{"note":"` + note + `","n":1.50}}` }
	modify := func(note string) governance.Decision {
		return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(said(note))}
	}
	shadow := func(d governance.Decision, reason string) governance.Decision {
		d.Shadow, d.Reason = true, reason
		return d
	}
	with := func(d governance.Decision, reason string) governance.Decision { d.Reason = reason; return d }
	const audit, open = `,"mode":"audit"`, `,"failOpen":true`
	for name, tt := range map[string]struct {
		listed []string
		flow   governance.Flow
		back   bool // the extension asks its caller
		want   governance.Decision
		fails  string
		asked  string
	}{
		"pass": {listed: []string{validator("allow", "")}, flow: request},
		"block": {
			listed: []string{validator("deny", "")},
			flow:   request,
			want:   deny("", "deny: refused"),
		},
		"modified": {listed: []string{mutator("upper", "")}, flow: request, want: modify("HI")},
		"mutate, then validate": {
			listed: []string{validator("needs-upper", ""), mutator("upper", "")},
			flow:   request,
			want:   modify("HI"),
			asked:  "upper needs-upper",
		},
		"validate, then mutate": {
			listed: []string{validator("needs-upper", ""), mutator("upper", "")},
			flow:   response,
			want:   deny("", "needs-upper: refused"),
			asked:  "needs-upper",
		},
		"back: validate, then mutate": {
			listed: []string{validator("needs-upper", ""), mutator("upper", "")},
			flow:   request,
			back:   true,
			want:   deny("", "needs-upper: refused"),
			asked:  "needs-upper",
		},
		"back: mutate, then validate": {
			listed: []string{validator("needs-upper", ""), mutator("upper", "")},
			flow:   response,
			back:   true,
			want:   modify("HI"),
			asked:  "upper needs-upper",
		},
		"audit never blocks": {
			listed: []string{validator("deny", audit)},
			flow:   request,
			want:   shadow(deny("", ""), "deny: refused"),
		},
		"audit never changes": {
			listed: []string{mutator("upper", audit)},
			flow:   request,
			want:   shadow(modify("HI"), "upper changes it"),
		},
		"audit sees what is sent": {
			listed: []string{validator("needs-upper", audit), mutator("upper", "")},
			flow:   request,
			want:   modify("HI"),
		},
		"audit beside a change": {
			listed: []string{validator("deny", audit), mutator("upper", "")},
			flow:   request,
			want:   with(modify("HI"), "audit: deny: refused"),
		},
		"audit beside a denial": {
			listed: []string{validator("deny 1", audit), validator("deny 2", "")},
			flow:   request,
			want:   deny("", "deny 2: refused"),
		},
		"audit twice": {
			listed: []string{validator("deny 1", audit), mutator("upper", audit)},
			flow:   request,
			want:   shadow(deny("", ""), "deny 1: refused; audit: upper changes it"),
		},
		"closed": {
			listed: []string{validator("crash", "")},
			flow:   request,
			fails:  "interceptor crash: it crashed",
		},
		"open": {
			listed: []string{validator("crash", open)},
			flow:   request,
			want:   with(governance.Decision{}, "interceptor crash: it crashed (extension_error)"),
		},
		"closed, a mutator": {
			listed: []string{mutator("crash", ""), validator("allow", "")},
			flow:   request,
			fails:  "interceptor crash: it crashed",
			asked:  "crash",
		},
		"none of a pass that breaks": {
			listed: []string{mutator("crash", `,"priorityHint":1`), mutator("upper", "")},
			flow:   request,
			fails:  "interceptor crash: it crashed",
			asked:  "upper crash",
		},
		"open, a mutator among others": {
			listed: []string{
				mutator("add-c", `,"priorityHint":5`),
				mutator("crash", open),
				mutator("add-b", `,"priorityHint":-5`),
			},
			flow:  request,
			want:  with(modify("hibc"), "interceptor crash: it crashed (extension_error)"),
			asked: "add-b crash add-c",
		},
		"by priority, then by name": {
			listed: []string{
				mutator("add-c", ""),
				mutator("add-d", `,"priorityHint":-1`),
				mutator("add-b", ""),
				mutator("add-a", `,"priorityHint":{"response":-9}`),
			},
			flow:  request,
			want:  modify("hidabc"),
			asked: "add-d add-a add-b add-c",
		},
		"by the priority of the phase": {
			listed: []string{mutator("add-a", `,"priorityHint":{"request":-9,"response":9}`), mutator("add-b", "")},
			flow:   response,
			want:   modify("hiba"),
			asked:  "add-b add-a",
		},
		"all reasons": {
			listed: []string{validator("deny 2", ""), validator("deny 1", ""), validator("allow", "")},
			flow:   request,
			want:   deny("", "deny 1: refused; deny 2: refused"),
		},
		"a denial beside a failure": {
			listed: []string{validator("crash", ""), validator("deny", "")},
			flow:   request,
			want:   deny("", "deny: refused"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := lists(tt.listed...)
			s.answer = behaves
			x := governance.Exchange{
				Method:   "tools/call",
				ToChild:  !tt.back,
				Request:  json.RawMessage(said("hi")),
				Response: json.RawMessage(said("hi")),
			}
			d, err := opened(t, s, governance.Spec{}).Decide(t.Context(), tt.flow, &x)
			if diff := cmp.Diff(tt.want, d); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if asked := strings.Join(s.names(), " "); tt.asked != "" && asked != tt.asked {
				t.Errorf("asked %s, want %s", asked, tt.asked)
			}
		})
	}
}

// All validators are asked at once, and a denial waits for all of them.
func TestValidatorsAtOnce(t *testing.T) {
	var all sync.WaitGroup
	all.Add(3)
	s := lists(validator("deny 1", ""), validator("deny 2", ""), validator("allow", `,"mode":"audit"`))
	s.answer = func(ctx context.Context, name, params string) (string, error) {
		all.Done()
		all.Wait()
		return behaves(ctx, name, params)
	}
	d, err := opened(t, s, governance.Spec{}).Decide(t.Context(), governance.Request, &toolCall)
	if diff := cmp.Diff(deny("", "deny 1: refused; deny 2: refused"), d); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// An interceptor that hangs and whose failure is passed over leaves time for the others.
func TestHangs(t *testing.T) {
	for name, tt := range map[string]struct {
		listed []string
		took   time.Duration
		want   string
		fails  bool
	}{
		"closed": {listed: []string{validator("hang", "")}, took: 4 * time.Second, fails: true},
		"open":   {listed: []string{validator("hang", `,"failOpen":true`)}, took: 2 * time.Second},
		"audit":  {listed: []string{validator("hang", `,"mode":"audit"`)}, took: 100 * time.Millisecond},
		"a mutator in audit": {
			listed: []string{mutator("hang", `,"mode":"audit"`), validator("deny", "")},
			took:   100 * time.Millisecond,
			want:   "deny: refused",
		},
		"an open mutator": {
			listed: []string{mutator("hang", `,"failOpen":true`), validator("deny", "")},
			took:   2 * time.Second,
			want:   "deny: refused",
		},
		"one after the other": {
			listed: []string{
				mutator("hang 1", `,"failOpen":true`),
				mutator("hang 2", `,"failOpen":true`),
				validator("deny", ""),
			},
			took: 3 * time.Second,
			want: "deny: refused",
		},
		"a closed mutator": {
			listed: []string{mutator("hang", ""), validator("deny", "")},
			took:   4 * time.Second,
			fails:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lists(tt.listed...)
				s.answer = func(ctx context.Context, name, params string) (string, error) {
					if strings.HasPrefix(name, "hang") {
						<-ctx.Done()
						return "", ctx.Err()
					}
					return behaves(ctx, name, params)
				}
				p := opened(t, s, governance.Spec{})
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				d, err := p.Decide(ctx, governance.Request, &toolCall)
				if took := time.Since(began); took != tt.took || (err != nil) != tt.fails ||
					tt.want != "" && (d.Action != governance.Deny || d.Reason != tt.want) {
					t.Errorf("after %v: %+v, %v", took, d, err)
				}
				p.Close() // nobody is asked any more
				limit := `"timeoutMs":4000,`
				if !tt.fails && tt.took >= time.Second {
					limit = `"timeoutMs":2000,`
				}
				first := slices.IndexFunc(s.names(), func(name string) bool { return strings.HasPrefix(name, "hang") })
				if !strings.Contains(s.heard[first], limit) {
					t.Errorf("asked with %s, want %s", s.heard[first], limit)
				}
			})
		})
	}
}

// An interceptor in mode audit that hangs delays one decision, a little, until it answers in time
// again. Its invocations are bounded, and those that are left out are told.
func TestAuditNeverDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lists(validator("watch", `,"mode":"audit"`), validator("allow", ""))
		var hangs, asked atomic.Int64
		hangs.Store(1)
		s.answer = func(ctx context.Context, name, params string) (string, error) {
			if name == "watch" {
				asked.Add(1)
				if hangs.Load() == 1 {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return `{"valid":false,"messages":[{"message":"odd","severity":"error"}]}`, nil
			}
			return behaves(ctx, name, params)
		}
		p := opened(t, s, governance.Spec{})
		decide := func(took time.Duration, reason string) {
			t.Helper()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			d, err := p.Decide(ctx, governance.Request, &toolCall)
			if err != nil || time.Since(began) != took || d.Reason != reason ||
				d.Action != governance.Allow && !d.Shadow {
				t.Errorf("after %v: %+v, %v; want %q after %v", time.Since(began), d, err, reason, took)
			}
			synctest.Wait()
		}
		decide(100*time.Millisecond, "watch has not answered yet")
		for range 15 {
			decide(0, "watch has not answered yet")
		}
		for range 10 {
			decide(0, "watch was not asked: too many of its invocations are under way")
		}
		if n := asked.Load(); n != 16 {
			t.Errorf("asked %d times, want 16", n)
		}
		hangs.Store(0)
		time.Sleep(5 * time.Second) // those under way end
		// which does not wait for the first answer in time
		if _, err := p.Decide(t.Context(), governance.Request, &toolCall); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		decide(0, "watch: odd")
	})
}

// Close ends what is under way, and later decisions go without mode audit.
func TestCloseEndsAudits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lists(validator("watch", `,"mode":"audit"`))
		ended := false
		s.answer = func(ctx context.Context, _, _ string) (string, error) {
			<-ctx.Done()
			ended = true
			return "", ctx.Err()
		}
		p := opened(t, s, governance.Spec{})
		for range 2 {
			if d, err := p.Decide(t.Context(), governance.Request, &toolCall); err != nil ||
				d.Action != governance.Allow {
				t.Errorf("%+v, %v", d, err)
			}
			p.Close()
		}
		if !ended || len(s.heard) != 1 {
			t.Errorf("ended %v, asked %d times", ended, len(s.heard))
		}
	})
}

// After the server has said that its list has changed, or does not know an interceptor, the
// next decision reads the list. While that cannot be used there is no decision.
func TestListChanges(t *testing.T) {
	s := lists(validator("allow", ""))
	s.answer = behaves
	p := opened(t, s, governance.Spec{})
	decide := func(want governance.Action, fails string) {
		t.Helper()
		d, err := p.Decide(t.Context(), governance.Request, &toolCall)
		if d.Action != want || (err != nil) != (fails != "") || err != nil && !strings.Contains(err.Error(), fails) {
			t.Errorf("%+v, %v; want %q, %q", d, err, want, fails)
		}
	}
	s.pages = lists(validator("deny", "")).pages
	decide(governance.Allow, "") // nobody has said so
	p.Notified("notifications/tools/list_changed")
	decide(governance.Allow, "")
	p.Notified("notifications/interceptors/list_changed")
	decide(governance.Deny, "")
	s.pages = lists().pages
	p.Notified("notifications/interceptors/list_changed")
	decide(governance.Allow, "would ever be asked")
	decide(governance.Allow, "would ever be asked")
	s.pages = lists(validator("allow", "")).pages
	decide(governance.Allow, "")
	if s.listed != 5 {
		t.Errorf("the list was read %d times", s.listed)
	}

	s.pages = lists(validator("deny", "")).pages
	s.answer = func(ctx context.Context, name, params string) (string, error) {
		if name == "allow" {
			return "", &protocol.Error{Kind: protocol.ExtensionError, Message: "Interceptor not found", Code: -32602}
		}
		return behaves(ctx, name, params)
	}
	decide(governance.Allow, "Interceptor not found")
	decide(governance.Deny, "")
}

// A change while the list is read makes the next decision read it again, and one that waits
// for another's reading ends with its caller.
func TestListChangesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lists(validator("allow", ""))
		s.answer = behaves
		slow := &slowList{server: s, reads: make(chan struct{})}
		p := opened(t, slow, governance.Spec{})
		p.Notified("notifications/interceptors/list_changed")
		slow.slow = true
		first := make(chan error)
		go func() {
			_, err := p.Decide(t.Context(), governance.Request, &toolCall)
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Decide(ctx, governance.Request, &toolCall); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second: %v", err)
		}
		p.Notified("notifications/interceptors/list_changed")
		slow.reads <- struct{}{}
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
		slow.slow = false
		if _, err := p.Decide(t.Context(), governance.Request, &toolCall); err != nil || s.listed != 3 {
			t.Errorf("the third: %v; the list was read %d times", err, s.listed)
		}
	})
}

// slowList is a server whose list may wait until somebody reads from reads.
type slowList struct {
	*server
	slow  bool
	reads chan struct{}
}

func (s *slowList) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if s.slow && method == "interceptors/list" {
		<-s.reads
	}
	return s.server.Call(ctx, method, params)
}

// TestAMutatorLeavesNoTwoReadings has a mutator return a result with a member that stands twice, which a
// validator behind it and the receiver may read in different ways.
func TestAMutatorLeavesNoTwoReadings(t *testing.T) {
	s := lists(mutator("twice", ""), validator("allow", ""))
	s.answer = func(ctx context.Context, name, params string) (string, error) {
		if name == "twice" {
			return `{"modified":true,"payload":{"action":"decline","action":"accept"}}`, nil
		}
		return behaves(ctx, name, params)
	}
	x := governance.Exchange{
		Method:   "tools/call",
		Request:  json.RawMessage(`{}`),
		Response: json.RawMessage(`{"action":"decline"}`),
	}
	_, err := opened(t, s, governance.Spec{}).Decide(t.Context(), governance.Response, &x)
	if !errors.Is(err, governance.ErrDecided) || !strings.Contains(err.Error(), "stands there twice") {
		t.Error(err)
	}
	if names := s.names(); len(names) != 1 {
		t.Errorf("asked about what cannot be used: %v", names)
	}
}
