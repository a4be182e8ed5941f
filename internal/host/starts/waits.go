package starts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// Waits lets requests wait for extensions that start with the host.
type Waits struct {
	Starting *Starting
	// Until is when requests no longer wait for extensions.
	Until time.Time
	// Lists reports whether an extension with this handshake has items for the list that method requests.
	Lists func(method string, hs *runtime.Handshake) bool
	// Rebuild puts a snapshot in force with the current descriptors of extensions.
	Rebuild func()
	// View returns the view of a session. Requests do not wait for extensions outside of it.
	View func(s *protocol.Session) (*toolset.View, error)
}

// AwaitListed waits for starting extensions whose items belong in the list that r requests: for a list of tools until
// their tools are known, for any other list until they have started.
func (s *Waits) AwaitListed(ctx context.Context, r *protocol.Call) {
	s.await(ctx, r, func(x *unit.Extension, known bool) bool {
		switch {
		case r.Extension != "" && r.Extension != x.ID():
			return false
		case r.Method == protocol.MethodToolsList:
			return !known
		}
		hs := x.Handshake()
		return x.Candidate.Manifest.Transport.Protocol == manifest.ProtocolMCP && (hs == nil || s.Lists(r.Method, hs))
	})
}

// AwaitOwner waits for the starting extensions that may own a tool of this name that view shows, until their tools
// are known. An extension whose tools are known from before is not waited for while it starts; once it has started,
// AwaitOwner waits for the snapshot with its new tools.
func (s *Waits) AwaitOwner(ctx context.Context, r *protocol.Call, name string, view *toolset.View) {
	s.await(ctx, r, func(x *unit.Extension, known bool) bool {
		return mayOwn(x, r.Extension, name, view) && (!known || x.Phase.IsSettling())
	})
}

// TryOwner starts each extension in all that may own a tool of this name that view shows, if its server has been
// unreachable since the host was started: a call need not wait for the next scheduled start.
func (s *Waits) TryOwner(ctx context.Context, all iter.Seq[*unit.Extension], extension, name string,
	view *toolset.View) {
	for x := range all {
		if x.Handshake() == nil && x.StartsOnCall() && mayOwn(x, extension, name, view) && x.TryAgain(ctx) {
			s.Rebuild()
		}
	}
}

// mayOwn reports whether x may own a tool of this name that view shows. extension is the one that the caller named;
// if it is "", name is the registered name of a tool of any extension.
func mayOwn(x *unit.Extension, extension, name string, view *toolset.View) bool {
	if extension != "" {
		return x.ID() == extension && view.Admits(extension, tools.NameOf(extension, name))
	}
	return tools.MayOwn(x.ID(), name) && view.Admits(x.ID(), name)
}

// await waits for the starting extensions for which concerns is true, at the latest until Until. The caller of r gets
// progress if it asked for progress. Extensions that are still starting at the end are logged.
func (s *Waits) await(ctx context.Context, r *protocol.Call, concerns func(x *unit.Extension, known bool) bool) {
	if r.Session != nil && r.Session.Toolset != "" {
		all := concerns
		concerns = func(x *unit.Extension, known bool) bool {
			view, err := s.View(r.Session)
			return err == nil && view.Reaches(x.ID()) && all(x, known)
		}
	}
	if left, _ := s.Starting.Select(concerns); len(left) == 0 || !time.Now().Before(s.Until) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, s.Until)
	defer cancel()
	defer TellWhile(ctx, r, waiting(func() string {
		left, _ := s.Starting.Select(concerns)
		return "starting: " + describe(left)
	}))()
	began := time.Now()
	left := s.Starting.Wait(ctx, concerns)
	for _, x := range left {
		x.LogLate("a request did not wait for it any longer: it is still starting", slog.String("method", r.Method),
			slog.String("after", time.Since(began).Round(time.Millisecond).String()),
			slog.String("doing", x.Phase.Doing()))
	}
}

// NotReady looks for an extension with unknown tools that may own a tool of this name that view shows. It returns why
// the tools are unknown, nil if there is no such extension. extension and name are as in [mayOwn].
func NotReady(all iter.Seq[*unit.Extension], extension, name string, view *toolset.View) error {
	for x := range all {
		// a manifest that declares the tools needs no handshake
		known := x.Handshake() != nil || x.TellsTools() && x.Phase.Failure() == ""
		if !mayOwn(x, extension, name, view) || known && !x.Phase.IsSettling() {
			continue
		}
		if x.Phase.IsStarting() && x.Phase.Failure() != "" { // the failure is not quoted, as below
			e := protocol.Errorf(protocol.NotReady,
				"extension %s could not be started yet and is tried again; exthost status %s shows why", x.ID(), x.ID())
			e.Extension, e.Tool, e.RetryAfter = x.ID(), name, retryStart
			return e
		}
		if x.Phase.IsStarting() {
			e := protocol.Errorf(protocol.NotReady, "extension %s is starting, and its tools are not known yet: %s",
				x.ID(), x.Phase.Doing())
			e.Extension, e.Tool, e.RetryAfter = x.ID(), name, retryStart
			return e
		}
		if x.Phase.Failure() != "" { // the failure may quote the extension, and no policy sees this error
			e := protocol.Errorf(protocol.Failed, "extension %s did not start; exthost status %s shows why", x.ID(),
				x.ID())
			e.Extension, e.Tool = x.ID(), name
			return e
		}
	}
	return nil
}

// retryStart is the RetryAfter of calls to a starting extension: how long a start takes is unknown.
const retryStart = 2 * time.Second

// Times of progress notifications: the first after a noticeable wait, then often enough for clients that give up
// without progress.
const (
	firstProgress = time.Second
	nextProgress  = 5 * time.Second
)

// waiter knows what a request waits for. It is an interface because a method value would be allocated for every call.
type waiter interface{ Waiting() string }

type waiting func() string

func (f waiting) Waiting() string { return f() }

// TellWhile sends progress with the text of w to the caller of r, if it asked for progress, until stop is called.
// stop waits for the notification in flight. The numbers are tiny, because progress must grow and the extension may
// count from a small number later.
func TellWhile(ctx context.Context, r *protocol.Call, w waiter) (stop func()) {
	token := progressToken(r.Params)
	if r.Client == nil || token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	first := time.AfterFunc(firstProgress, func() {
		defer close(done)
		for {
			waited := time.Since(began).Round(time.Second)
			text := fmt.Sprintf("%s, %s", w.Waiting(), waited)
			params := rawjson.Set(json.RawMessage(fmt.Sprintf(`{"progress":%g}`, waited.Seconds()/1e6)),
				protocol.MetaProgressToken, token)
			params = rawjson.Set(params, "message", rawjson.Quote(text))
			if r.Client.Notify(ctx, protocol.MethodProgress, params) != nil {
				return
			}
			select {
			case <-time.After(nextProgress):
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		if !first.Stop() {
			<-done
		}
	}
}

// progressToken returns the progress token in params, nil without one.
func progressToken(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(protocol.MetaProgressToken)) {
		return nil
	}
	return rawjson.Get(rawjson.Get(params, "_meta"), protocol.MetaProgressToken)
}
