package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// fakeClient is a client whose person answers as answer does.
type fakeClient struct {
	may       []protocol.Risk
	answer    func(ctx context.Context) (string, error)
	questions []string
	waits     []string
	takenBack int // questions whose context ended
}

var _ governance.Client = (*fakeClient)(nil)

func (c *fakeClient) MayApprove(risk protocol.Risk) bool { return slices.Contains(c.may, risk) }
func (c *fakeClient) Program() string                    { return "term\x1b[2J 1.0" }

func (c *fakeClient) Confirm(ctx context.Context, message string) (json.RawMessage, error) {
	c.questions = append(c.questions, message)
	answer, err := c.answer(ctx)
	if ctx.Err() != nil {
		c.takenBack++
	}
	return json.RawMessage(answer), err
}

func (c *fakeClient) Waits(_ context.Context, what string) (stop func()) {
	c.waits = append(c.waits, what)
	return func() { c.waits = append(c.waits, "no more") }
}

// saying returns a client that may approve what writes, and answers after a second.
func saying(answer string, err error) *fakeClient {
	return &fakeClient{
		may: []protocol.Risk{protocol.RiskWrite},
		answer: func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Second):
				return answer, err
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	}
}

// silent returns a client that never answers.
func silent() *fakeClient {
	return &fakeClient{
		may: []protocol.Risk{protocol.RiskWrite},
		answer: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		},
	}
}

// from returns an exchange of a client, whose call writes.
func from(c governance.Client, arguments string) *governance.Exchange {
	x := exchange("laptop", arguments)
	x.Client, x.Risk = c, protocol.RiskWrite
	return x
}

func in(where protocol.Where) governance.ApprovalRequest {
	q := asked
	q.Where = where
	return q
}

// TestFirstAnswerCounts asks in a client, with the operators beside it: each way in which a question can end has one
// outcome.
func TestFirstAnswerCounts(t *testing.T) {
	approved := governance.Answer{Approved: true, By: "laptop", Where: protocol.InClient, After: time.Second}
	denied := governance.Answer{By: "laptop", Where: protocol.InClient, After: time.Second}
	dismissed := denied
	dismissed.By = "laptop: the question was dismissed"
	operator := governance.Answer{Approved: true, By: "ann", Where: protocol.AtOperator, After: 10 * time.Second}
	next := governance.Answer{Next: "exthost calls approve, or http://dashboard"}
	for _, tt := range []struct {
		name    string
		where   protocol.Where
		client  *fakeClient
		operate bool // the operator approves after 10 s
		want    governance.Answer
		err     error
		asked   int // questions to the client
		refused string
	}{
		{"accepted", protocol.InClient, saying(`{"action":"accept","content":{}}`, nil), false, approved, nil, 1, ""},
		{"without content", protocol.InClient, saying(`{"action":"accept"}`, nil), false, approved, nil, 1, ""},
		{"with what every result may have", protocol.InClient,
			saying(`{"resultType":"complete","action":"accept","_meta":{"a":1}}`, nil), false, approved, nil, 1, ""},
		{"declined", protocol.InClient, saying(`{"action":"decline"}`, nil), false, denied, nil, 1, ""},
		{"declined, then operators", protocol.InClientThenOperator, saying(`{"action":"decline"}`, nil), true, denied,
			nil, 1, ""},
		{"dismissed", protocol.InClient, saying(`{"action":"cancel"}`, nil), true, dismissed, nil, 1, ""},
		{"dismissed, then operators", protocol.InClientThenOperator, saying(`{"action":"cancel"}`, nil), true, operator,
			nil, 1, ""},
		{"operators first", protocol.InClient, silent(), true, operator, nil, 1, ""},
		{"cannot be asked", protocol.InClient, saying("", errors.New("no elicitation")), true, operator, nil, 1, ""},
		{"expired", protocol.InClient, silent(), false, next, context.DeadlineExceeded, 1, ""},
		{"not said", "", saying(`{"action":"accept"}`, nil), true, operator, nil, 0, ""},
		{"operators alone", protocol.AtOperator, saying(`{"action":"accept"}`, nil), true, operator, nil, 0, ""},
		{"not allowed to", protocol.InClient,
			&fakeClient{may: []protocol.Risk{protocol.RiskRead, protocol.RiskDestroy}}, true, operator, nil, 0, ""},
		{"an answer that says nothing", protocol.InClient, saying(`{}`, nil), true, operator, nil, 1, "none of accept"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refused []string
				s := NewStore(Options{
					Refused:   func(q Request, why string) { refused = append(refused, q.ID+why) },
					Dashboard: func() string { return "http://dashboard" },
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if tt.operate {
					time.AfterFunc(10*time.Second, func() {
						for _, q := range s.List() {
							if err := s.Approve(q.ID, "ann"); err != nil {
								t.Error(err)
							}
						}
					})
				}
				got, err := s.Ask(ctx, from(tt.client, `{"path":"/a"}`), in(tt.where))
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
					t.Errorf("%v %s", err, diff)
				}
				if len(tt.client.questions) != tt.asked || len(s.List()) != 0 {
					t.Errorf("asked %d times, and %d wait", len(tt.client.questions), len(s.List()))
				}
				text := strings.Join(refused, "\n")
				if (tt.refused == "") != (text == "") || !strings.Contains(text, tt.refused) {
					t.Errorf("refused: %q", text)
				}
				told := tt.client.waits
				if len(told) != 2 || !strings.HasSuffix(told[0], ", or http://dashboard") ||
					!strings.HasPrefix(told[0], "waits for an approval: exthost calls approve ") {
					t.Errorf("told %q", told)
				}
				open := tt.name == "operators first" || tt.err != nil
				if (tt.client.takenBack == 1) != open {
					t.Errorf("%d questions were taken back", tt.client.takenBack)
				}
				time.Sleep(time.Minute) // synctest time: nothing comes later
			})
		})
	}
}

// TestOperatorIsToldWhoAnswered answers in the client what an operator answers too, and lists where it is asked.
func TestOperatorIsToldWhoAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		done := make(chan governance.Answer, 1)
		go func() {
			a, _ := s.Ask(t.Context(), from(saying(`{"action":"accept"}`, nil), `{}`), in(protocol.InClient))
			done <- a
		}()
		synctest.Wait()
		q := s.List()[0]
		if q.AskedIn != `term\x1b[2J 1.0` {
			t.Errorf("asked in %q", q.AskedIn)
		}
		<-done
		if err := s.Deny(q.ID, "ann", ""); err == nil ||
			err.Error() != q.ID+" was approved already, by laptop in the client, after 1s" {
			t.Error(err)
		}
	})
}

// TestLateAnswers lets the call of a question end before the client answers: the answer is for no other call.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		answer := make(chan string)
		c := &fakeClient{
			may: []protocol.Risk{protocol.RiskWrite},
			answer: func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return <-answer, nil // it does not care that the question was taken back
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.Ask(ctx, from(c, `{}`), in(protocol.InClient))
			done <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		answer <- `{"action":"accept"}`
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if q := s.List(); len(q) != 1 || q[0].Approved != "" || q[0].AskedIn != "" {
			t.Errorf("the late answer counts: %+v", q)
		}
	})
}

// TestCallIsMadeAgain repeats a call while the question about the first one is still being taken back: the request is
// the second one's, and the answer took as long as the second question was open.
func TestCallIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		slow := silent()
		release := make(chan struct{})
		slow.answer = func(context.Context) (string, error) {
			<-release
			return "", context.Canceled
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := s.Ask(ctx, from(slow, `{}`), in(protocol.InClient))
			first <- err
		}()
		synctest.Wait()
		id := s.List()[0].ID
		cancel()
		synctest.Wait()
		time.Sleep(10 * time.Second) // synctest time
		again := from(saying(`{"action":"accept"}`, nil), `{}`)
		again.ID = "second"
		second := make(chan governance.Answer, 1)
		go func() {
			a, _ := s.Ask(t.Context(), again, in(protocol.InClient))
			second <- a
		}()
		synctest.Wait()
		close(release)
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if q := s.List()[0]; q.ID != id || q.Decision != "second" || !q.Waiting || q.AskedIn == "" {
			t.Errorf("%+v", q)
		}
		if a := <-second; !a.Approved || a.After != time.Second {
			t.Errorf("%+v", a)
		}
	})
}

// TestRightIsCheckedAgain takes the right away while the client is asked.
func TestRightIsCheckedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan string, 1)
		s := NewStore(Options{Refused: func(_ Request, why string) { refused <- why }})
		c := saying("", nil)
		c.answer = func(context.Context) (string, error) {
			c.may = nil
			return `{"action":"accept"}`, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a, err := s.Ask(ctx, from(c, `{}`), in(protocol.InClient)); a.Approved || err == nil {
			t.Errorf("%+v, %v", a, err)
		}
		if why := <-refused; !strings.Contains(why, "no longer lets this client") {
			t.Error(why)
		}
	})
}

// TestAnswersThatDoNotCount leaves the call with operators, and records the answer.
func TestAnswersThatDoNotCount(t *testing.T) {
	for _, answer := range []string{
		``, `null`, `true`, `"accept"`, `[]`, `["accept"]`, `{}`, `{"action":null}`, `{"action":true}`, `{"action":""}`,
		`{"action":"Accept"}`, `{"action":"ACCEPT"}`, `{"action":" accept"}`, `{"action":"accept "}`,
		`{"action":"accept\u0000"}`, `{"action":"аccept"}`, "{\"action\":\"accept\u200b\"}", `{"action":"approve"}`,
		`{"action":["accept"]}`, `{"action":{"accept":true}}`, `{"ACTION":"accept"}`, `{"Action":"accept"}`,
		`{"action":"decline","action":"accept"}`, `{"action":"accept","Action":"decline"}`,
		`{"action":"accept","content":{"approve":false}}`, `{"action":"accept","content":[]}`,
		`{"action":"accept","content":"{}"}`, `{"action":"accept","until":"noon"}`, `{"action":"accept","":1}`,
		`{"action":"accept"} {"action":"accept"}`, `{"action":"accept"`,
		`{"result":{"action":"accept"}}`, `{"action":"accept","pad":"` + strings.Repeat("x", maxAnswer) + `"}`,
		strings.Repeat("[", 100_000),
	} {
		synctest.Test(t, func(t *testing.T) {
			var refused []string
			s := NewStore(Options{Refused: func(_ Request, why string) { refused = append(refused, why) }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			a, err := s.Ask(ctx, from(saying(answer, nil), `{}`), in(protocol.InClient))
			if a.Approved || a.By != "" || !errors.Is(err, context.DeadlineExceeded) || len(refused) != 1 {
				t.Errorf("%.80s: %+v, %v, refused %q", answer, a, err, refused)
			}
		})
	}
}

// TestQuestion shows what a person needs to decide, and no text of others can add a line or hide one.
func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		secret := "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
		c := saying(`{"action":"decline"}`, nil)
		x := from(c, `{"path":"/a\u202e\ntool: ext_safe_read","token":"`+secret+`","z":"`+strings.Repeat("z", 3000)+
			`"}`)
		x.Extension = "files\nid: 7"
		q := in(protocol.InClient)
		q.Reason, q.Remember = "it deletes\r\nid: 8\u200b", protocol.RememberSession
		if _, err := s.Ask(t.Context(), x, q); err != nil {
			t.Fatal(err)
		}
		got := c.questions[0]
		var names []string
		for line := range strings.Lines(got) {
			name, _, _ := strings.Cut(line, ":")
			names = append(names, strings.TrimSpace(name))
			if len(names) > 2 && !strings.HasPrefix(line, "    ") { // Markdown shows indented lines as they are
				t.Errorf("Markdown can change %q", line)
			}
		}
		want := []string{"This call waits for your approval", "", "tool", "arguments", "arguments cut",
			"hidden characters in the arguments", "asked by", "reason", "expires", "id"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s\n%s", diff, got)
		}
		for _, part := range []string{"ext_files_delete of extension files\\x0aid: 7 (write)", "U+202E at /path",
			"[redacted:github-pat]", "policy ask", "reason: " + holdsForSession, `it deletes\x0d\x0aid: 8\u200b`,
			"in 1m0s", "exthost calls approve "} {
			if !strings.Contains(got, part) {
				t.Errorf("the question has no %q:\n%s", part, got)
			}
		}
		if strings.Contains(got, secret) || strings.ContainsAny(got, "\r\u202e\u200b") || len(got) > 8<<10 {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

// TestResponsesAreNotShownToTheClient asks operators alone about a response.
func TestResponsesAreNotShownToTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		c := saying(`{"action":"accept"}`, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q, x := in(protocol.InClient), from(c, `{}`)
		q.Flow, x.Response = governance.Response, json.RawMessage(`{"content":[]}`)
		if a, err := s.Ask(ctx, x, q); a.Approved || err == nil || len(c.questions) != 0 {
			t.Errorf("%+v, %v, %q", a, err, c.questions)
		}
		reversed := from(c, `{}`)
		reversed.ToChild = false
		if a, err := s.Ask(ctx, reversed, in(protocol.InClient)); a.Approved || err == nil || len(c.questions) != 0 {
			t.Errorf("%+v, %v, %q", a, err, c.questions)
		}
	})
}

// TestYesHoldsForASession repeats a call: a yes holds for equal calls of the session, and for nothing else.
func TestYesHoldsForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		session := in(protocol.InClient)
		session.Remember = protocol.RememberSession
		first := saying(`{"action":"accept"}`, nil)
		ask := func(c *fakeClient, q governance.ApprovalRequest, change func(x *governance.Exchange),
		) (governance.Answer, int) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			x := from(c, `{"path":"/a"}`)
			if change != nil {
				change(x)
			}
			a, _ := s.Ask(ctx, x, q)
			return a, len(c.questions)
		}
		if a, n := ask(first, session, nil); !a.Approved || n != 1 {
			t.Fatalf("%+v, asked %d times", a, n)
		}
		if a, n := ask(first, session, nil); !a.Approved || n != 1 || a.By != "laptop, for the session" {
			t.Errorf("the same call: %+v, asked %d times", a, n)
		}
		other := session
		other.Policy = "another"
		for name, change := range map[string]func(x *governance.Exchange){
			"another session":   func(x *governance.Exchange) { x.Session = "s2" },
			"no session":        func(x *governance.Exchange) { x.Session = "" },
			"another caller":    func(x *governance.Exchange) { x.Caller = "eve" },
			"another node":      func(x *governance.Exchange) { x.Node = "web" },
			"another tool":      func(x *governance.Exchange) { x.Tool = "ext_files_wipe" },
			"another extension": func(x *governance.Exchange) { x.Extension = "disk" },
			"other arguments": func(x *governance.Exchange) {
				x.Request = json.RawMessage(`{"name":"d","arguments":{"path":"/b"}}`)
			},
		} {
			if a, n := ask(saying(`{"action":"decline"}`, nil), session, change); a.Approved || n != 1 {
				t.Errorf("%s: %+v, asked %d times", name, a, n)
			}
		}
		for name, q := range map[string]governance.ApprovalRequest{
			"another policy":             other,
			"a policy that asks always":  in(protocol.InClient),
			"the same about its results": {Policy: "ask", Flow: governance.Response, Asking: session.Asking},
		} {
			if a, _ := ask(saying(`{"action":"decline"}`, nil), q, nil); a.Approved {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if a, _ := ask(&fakeClient{}, session, nil); a.Approved {
			t.Error("a yes of the client outlives its right to approve")
		}
		s.EndSession("s2")
		if a, _ := ask(silent(), session, nil); !a.Approved {
			t.Error("the end of another session counts")
		}
		s.EndSession("s1")
		if a, _ := ask(silent(), session, nil); a.Approved {
			t.Error("a yes outlives its session")
		}
		for _, q := range s.List() { // operators too are told what their yes holds for
			if q.Policy == session.Policy && !strings.HasPrefix(q.Reason, holdsForSession[:len(holdsForSession)-2]) {
				t.Errorf("%+v", q)
			}
		}
	})
}

// TestNoIsNotRemembered asks again after a no, and bounds what is remembered.
func TestNoIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{})
		q := in(protocol.InClient)
		q.Remember = protocol.RememberSession
		c := saying(`{"action":"decline"}`, nil)
		for range 2 {
			if a, err := s.Ask(t.Context(), from(c, `{}`), q); a.Approved || err != nil {
				t.Errorf("%+v, %v", a, err)
			}
		}
		yes := saying(`{"action":"accept"}`, nil)
		for i := range maxRemembered + 10 {
			if a, err := s.Ask(t.Context(), from(yes, fmt.Sprintf(`{"n":%d}`, i)), q); !a.Approved || err != nil {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		if len(c.questions) != 2 || len(yes.questions) != maxRemembered+10 || len(s.remembered) != maxRemembered {
			t.Errorf("asked %d and %d times, %d are remembered", len(c.questions), len(yes.questions),
				len(s.remembered))
		}
	})
}

// TestClientThatAnswersForNobody is asked ten times in a row, and no more.
func TestClientThatAnswersForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused []string
		s := NewStore(Options{Refused: func(_ Request, why string) { refused = append(refused, why) }})
		takes := func(d time.Duration) *fakeClient {
			c := saying("", nil)
			c.answer = func(context.Context) (string, error) {
				time.Sleep(d) // synctest time
				return `{"action":"accept"}`, nil
			}
			return c
		}
		ask := func(caller string, c *fakeClient) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			x := from(c, `{}`)
			x.Caller = caller
			a, _ := s.Ask(ctx, x, in(protocol.InClient))
			return a.Approved
		}
		program, person := takes(fastAnswer-time.Millisecond), takes(fastAnswer)
		for range fastAnswers - 1 {
			ask("laptop", program)
		}
		if !ask("laptop", person) || len(refused) != 0 || s.Unasked() != nil {
			t.Errorf("a person is taken for a program: %q, %v", refused, s.Unasked())
		}
		for range fastAnswers {
			if !ask("laptop", program) {
				t.Error("an answer in time does not count")
			}
		}
		if ask("laptop", program) || ask("laptop", person) || len(person.questions) != 1 {
			t.Error("the program is asked on")
		}
		if !ask("desktop", person) || len(refused) != 1 || !slices.Equal(s.Unasked(), []string{"laptop"}) {
			t.Errorf("refused %q, unasked %v", refused, s.Unasked())
		}
	})
}
