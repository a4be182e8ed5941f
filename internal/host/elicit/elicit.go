// Package elicit has the callers that can open an address sign in at the server that their call
// needs (MCP, "URL mode elicitation").
package elicit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Logins asks each caller for one login at a time of each extension or destination.
type Logins struct {
	Log     *slog.Logger
	Closing context.Context // nobody is asked after its end

	asked sync.Map // who is asked now
}

// asked is a caller that is asked for a login of an extension or destination.
type asked struct{ id, caller string }

// patience is how long a caller may take to sign in.
const patience = 5 * time.Minute

// Ask is the [dispatch.Stage] that has the caller of a call sign in where that is why the call
// failed, and makes the call again. The browser is sent back to this machine, so that only a
// person at it can complete the login.
func (l *Logins) Ask(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		result, err := next(ctx, c, params)
		if c.Request.Client == nil || !l.Asks(c, err) || c.MayHaveRun() {
			return result, err
		}
		login := loginOf(c).(unit.SignsIn)
		why, id := login.Needed(), c.Target.Base().ID()
		who := asked{id, c.Caller()}
		if _, busy := l.asked.LoadOrStore(who, true); busy {
			return result, err
		}
		defer l.asked.Delete(who)
		began := time.Now()
		failed := l.signIn(ctx, c, login)
		if c.Passed(status.StageSignIn, began); failed != nil {
			l.Log.Info("the caller was asked to sign in, and has not", "extension", id, "reason",
				protocol.Reason(failed))
			return result, err
		}
		l.Log.Info("the caller has signed in", "extension", id)
		if result, err = next(ctx, c, params); protocol.KindOf(err) != protocol.Failed || !lacks(err, why) {
			return result, err
		}
		if restarted := c.Target.Restart(ctx); restarted != nil { // it had failed for want of the login
			return nil, restarted
		}
		return next(ctx, c, params)
	}
}

// Asks reports whether the caller of a call that failed, if the call has a way to it, is asked to sign in.
func (l *Logins) Asks(c *dispatch.Call, err error) bool {
	if err == nil || !opens(c.Request.Session) {
		return false
	}
	login, ok := loginOf(c).(unit.SignsIn)
	kind := protocol.KindOf(err)
	return ok && (kind == protocol.RequirementMissing || kind == protocol.Failed) && lacks(err, login.Needed())
}

// lacks reports whether an error is that a person has to sign in, as why says. One that may not
// start for another reason is not signed in to: its configuration may name secrets that it is
// refused.
func lacks(err error, why string) bool {
	return why != "" && strings.Contains(protocol.Reason(err), why)
}

// opens reports whether the caller can open an address for its user. One of another machine could
// only have somebody at this one open it, who would sign in for the caller.
func opens(s *protocol.Session) bool {
	return s != nil && !s.Remote && rawjson.Get(rawjson.Get(s.Capabilities, "elicitation"), "url") != nil
}

// loginOf returns the login that the call is made with; nil when there is none.
func loginOf(c *dispatch.Call) runtime.Login {
	if c.Target == nil {
		return nil
	}
	return c.Target.LoginOf(c.Caller())
}

// errDeclined is the error of a user who does not want to sign in.
var errDeclined = errors.New("the user declined")

func (l *Logins) signIn(ctx context.Context, c *dispatch.Call, login unit.SignsIn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(l.Closing, cancel)()
	elicitation := rand.Text()
	err := login.SignIn(ctx, func(ctx context.Context, address string) error {
		host := address
		if u, err := url.Parse(address); err == nil {
			host = u.Host
		}
		answer, err := c.AskCaller(ctx, protocol.MethodElicit, json.RawMessage(`{"mode":"url","message":`+
			string(rawjson.Quote(c.Target.Base().ID()+" wants you to sign in at "+host))+`,"url":`+
			string(rawjson.Quote(address))+`,"elicitationId":"`+elicitation+`"}`))
		if err != nil {
			return err
		}
		if action, _ := rawjson.Text(rawjson.Get(answer, "action")); action != "accept" {
			return errDeclined
		}
		return nil
	})
	if err == nil {
		// the call goes on without it
		_ = c.TellCaller(ctx, protocol.MethodElicitComplete, json.RawMessage(`{"elicitationId":"`+elicitation+`"}`))
	}
	return err
}
