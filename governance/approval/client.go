package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

const (
	maxAnswer  = 4 << 10 // bytes of a client's answer
	maxProgram = 128     // bytes of what a client calls itself

	// A client that answers in less than fastAnswer fastAnswers times in a row answers for nobody.
	fastAnswer  = 300 * time.Millisecond
	fastAnswers = 10
)

// asking is a question to the client that made a call, beside the operators.
type asking struct {
	request  *pendingRequest
	shown    Request                // the request as the client is asked about it
	answered chan governance.Answer // of the call that waits
	client   governance.Client
	risk     protocol.Risk
	where    protocol.Where
}

// asksClient reports whether the client that made the call is asked. It is not asked about a response: the question
// would show it what the policy holds back.
func (s *Store) asksClient(x *governance.Exchange, q governance.ApprovalRequest) bool {
	call := x.ToChild && x.Method == protocol.MethodToolsCall && x.Tool != "" && q.Flow == governance.Request
	if !call || !q.Where.Client() || x.Client == nil || !x.Client.MayApprove(x.ToolRisk()) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paces[x.Caller] < fastAnswers
}

// askClient asks. The answer counts if the call still waits for it, and nobody was first. stop takes the question back,
// and waits until that is done.
func (s *Store) askClient(ctx context.Context, a *asking) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done, program := make(chan struct{}), display.Cut(display.Escape(a.client.Program()), maxProgram)
	question := a.question()
	s.setAskedIn(a, cmp.Or(program, "a client without a name"))
	go func() {
		defer close(done)
		defer s.setAskedIn(a, "")
		if err := s.confirm(ctx, a, question); err != nil && ctx.Err() == nil {
			s.refuse(a.shown, err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// confirm asks the client, and delivers its answer. The error says why an answer does not count.
func (s *Store) confirm(ctx context.Context, a *asking, question string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("asking the client failed: panic: %v", v)
		}
	}()
	began := time.Now()
	raw, err := a.client.Confirm(ctx, question)
	if protocol.KindOf(err) == protocol.InvalidResponse {
		return err
	}
	if err != nil { // nobody was asked: the operators are left
		return nil
	}
	took := time.Since(began)
	action, err := readAction(raw)
	if err != nil {
		return err
	}
	if !a.client.MayApprove(a.risk) {
		return errors.New("server.clients.NAME.approves no longer lets this client approve such calls")
	}
	if s.pace(a.shown.Caller, took) {
		s.refuse(a.shown, fmt.Errorf("the client has answered %d times in a row within %s: it is asked no more, and "+
			"operators answer for it until the host is started again", fastAnswers, fastAnswer))
	}
	answer := governance.Answer{Approved: action == "accept", By: a.shown.Caller, Where: protocol.InClient}
	switch {
	case action != "cancel":
	case a.where == protocol.InClientThenOperator:
		return nil
	default:
		answer.By += ": the question was dismissed"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.pending, a.request); i >= 0 && a.waitsLocked() {
		s.settleLocked(i, answer)
	}
	return nil
}

func (s *Store) refuse(q Request, err error) {
	if s.o.Refused != nil {
		s.o.Refused(q, err.Error())
	}
}

// readAction returns the action of an answer to elicitation/create: accept, decline or cancel. An answer that says
// anything else, or more than was asked, is an error; what every result of MCP may have says nothing.
func readAction(answer json.RawMessage) (string, error) {
	if len(answer) > maxAnswer {
		return "", fmt.Errorf("the client's answer has %d bytes, more than %d", len(answer), maxAnswer)
	}
	answer, err := rawjson.Object(answer)
	if err == nil {
		err = strictjson.NoTwins(answer)
	}
	if err != nil {
		return "", fmt.Errorf("the client's answer cannot be read: %w", err)
	}
	if content := rawjson.Get(answer, "content"); content != nil && !rawjson.Equal(content, []byte("{}")) &&
		string(content) != "null" {
		return "", errors.New("the client's answer has content, and none was asked for")
	}
	for name := range rawjson.Members(answer) {
		if !slices.Contains([]string{"action", "content", "_meta", "resultType"}, name) {
			return "", fmt.Errorf("the client's answer has %s, and no such thing was asked for",
				display.Cut(display.Escape(name), maxProgram))
		}
	}
	action, _ := rawjson.Text(rawjson.Get(answer, "action"))
	if !slices.Contains([]string{"accept", "decline", "cancel"}, action) {
		return "", fmt.Errorf("the client's answer is %s, and none of accept, decline, cancel",
			display.Cut(display.Escape(string(answer)), maxProgram))
	}
	return action, nil
}

// question is the text that the person in front of the client reads. Text of others is on one line each, without
// characters that a reader does not see. A client that renders Markdown would drop HTML in it and show [a](b) as a: the
// lines are indented as code, which is shown as it is.
func (a *asking) question() string {
	q, shown := a.request, &a.shown
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "\n    %s: %s", name, display.Escape(fmt.Sprintf(format, args...)))
	}
	b.WriteString("This call waits for your approval\n")
	line("tool", "%s of extension %s (%s)", shown.Tool, shown.Extension, a.risk)
	line("arguments", "%s", shown.Arguments)
	if q.size > maxPreview {
		line("arguments cut", "the first %d of %d bytes are shown, SHA-256 %s", maxPreview, q.size, shown.Hash)
	}
	if len(q.hidden) > 0 {
		line("hidden characters in the arguments", "%v", q.hidden)
	}
	line("asked by", "%s", shown.By())
	line("reason", "%s", shown.Reason)
	line("expires", "in %s", shown.Expires.Sub(shown.Since).Round(time.Second))
	line("id", "%s; an operator answers it with exthost calls approve %s", shown.ID, shown.ID)
	return b.String()
}

// waitsLocked reports whether the call that asked waits for the answer; an equal call may have taken its place.
func (a *asking) waitsLocked() bool { return a.request.Waiting && a.request.answer == a.answered }

// setAskedIn shows in the list that the client is asked too; "" is none.
func (s *Store) setAskedIn(a *asking, client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := a.request; a.waitsLocked() && q.AskedIn != client && slices.Contains(s.pending, q) {
		q.AskedIn = client
		s.changeLocked()
	}
}

// pace notes how long a client took to answer. It reports whether the client is asked no more, from this answer on.
func (s *Store) pace(client string, took time.Duration) (ends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.paces[client] >= fastAnswers: // questions in flight
	case took < fastAnswer:
		s.paces[client]++
		return s.paces[client] == fastAnswers
	default:
		delete(s.paces, client)
	}
	return false
}

// Unasked returns the clients that are asked no more, because they answer for nobody; sorted.
func (s *Store) Unasked() (clients []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for client, n := range s.paces {
		if n >= fastAnswers {
			clients = append(clients, client)
		}
	}
	slices.Sort(clients)
	return clients
}

// grant is an approval that holds until a session ends.
type grant struct {
	session string
	subject subject
	answer  governance.Answer
}

// maxRemembered bounds the approvals that are remembered; the oldest is forgotten first.
const maxRemembered = 1024

func (s *Store) rememberLocked(q *pendingRequest, a governance.Answer) {
	a.By += ", for the session"
	s.remembered = append(s.remembered[max(0, len(s.remembered)-maxRemembered+1):], grant{q.session, q.subject, a})
}

// recallLocked returns the approval of an equal call in the session of q, if its policy lets a yes hold for so long. A
// yes of the client counts as long as the client is asked, see asksClient.
func (s *Store) recallLocked(q *pendingRequest, asksClient bool) governance.Answer {
	if q.session == "" {
		return governance.Answer{}
	}
	for _, g := range s.remembered {
		if g.session == q.session && g.subject == q.subject && (asksClient || g.answer.Where != protocol.InClient) {
			return g.answer
		}
	}
	return governance.Answer{}
}

// EndSession forgets the approvals that hold for a session.
func (s *Store) EndSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remembered = slices.DeleteFunc(s.remembered, func(g grant) bool { return g.session == id })
}
