package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// SignIns ask callers to sign in at the server that their call needs, at an address that the caller opens (MCP, "URL
// mode elicitation"). A caller is asked for one login at a time per extension or destination.
type SignIns struct {
	o     *Options
	asked sync.Map // callers being asked
}

// asked is a caller that is being asked for a login at an extension or destination.
type asked struct{ id, caller string }

// patience is the time that a caller has to sign in.
const patience = 5 * time.Minute

// AskSignIn is the [dispatch.Stage] that asks the caller of a call to sign in if the call failed for lack of a login,
// and repeats the call. The browser is redirected to this machine, so that only a person at this machine can complete
// the login.
func (l *SignIns) AskSignIn(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		result, err := next(ctx, c, params)
		if c.Request.Client == nil || !l.asks(c, err) || c.MayHaveRun() {
			return result, err
		}
		login := loginOf(c).(runtime.SignsIn)
		why, id := login.Needed(), c.Target.Base().ID()
		who := asked{id, c.Caller()}
		if _, busy := l.asked.LoadOrStore(who, true); busy {
			return result, err
		}
		defer l.asked.Delete(who)
		began := time.Now()
		failed := l.signIn(ctx, c, login)
		if c.Passed(status.StageSignIn, began); failed != nil {
			l.o.Log.Info("the caller was asked to sign in, and has not", "extension", id, "reason",
				protocol.Reason(failed))
			return result, err
		}
		l.o.Log.Info("the caller has signed in", "extension", id)
		if result, err = next(ctx, c, params); protocol.KindOf(err) != protocol.Failed || !lacks(err, why) {
			return result, err
		}
		if restarted := c.Target.Restart(ctx); restarted != nil { // the target had failed for lack of the login
			return nil, restarted
		}
		return next(ctx, c, params)
	}
}

// asks reports whether the caller of a failed call will be asked to sign in, provided that it can be reached.
func (l *SignIns) asks(c *dispatch.Call, err error) bool {
	if err == nil || !opens(c.Request.Session) {
		return false
	}
	login, ok := loginOf(c).(runtime.SignsIn)
	kind := protocol.KindOf(err)
	return ok && (kind == protocol.RequirementMissing || kind == protocol.Failed) && lacks(err, login.Needed())
}

// lacks reports whether err contains why, the text that says that a person has to sign in. A call that failed for
// another reason must not lead to a login: its extension may be refused the secrets of its configuration.
func lacks(err error, why string) bool {
	return why != "" && strings.Contains(protocol.Reason(err), why)
}

// opens reports whether the caller can open an address for its user. Remote callers are excluded: somebody at this
// machine could be led to open the address, and would sign in for the remote caller.
func opens(s *protocol.Session) bool {
	return s != nil && !s.Remote && rawjson.Get(rawjson.Get(s.Capabilities, "elicitation"), "url") != nil
}

// loginOf returns the login that the call uses, nil if none.
func loginOf(c *dispatch.Call) runtime.Login {
	if c.Target == nil {
		return nil
	}
	return c.Target.LoginOf(c.Caller())
}

// errDeclined is the error of a user who declines to sign in.
var errDeclined = errors.New("the user declined")

func (l *SignIns) signIn(ctx context.Context, c *dispatch.Call, login runtime.SignsIn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(l.o.Closing, cancel)()
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
		// the call goes on if the caller cannot be told
		_ = c.TellCaller(ctx, protocol.MethodElicitComplete, json.RawMessage(`{"elicitationId":"`+elicitation+`"}`))
	}
	return err
}
