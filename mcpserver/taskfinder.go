package mcpserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/protocol"
)

const (
	// Time to wait for a turn, and for the other servers to answer which of them has a task.
	askTimeout = 500 * time.Millisecond
	askRate    = 200      // requests to other servers per second, for tasks whose server is not known
	askBytes   = 16 << 10 // a longer request counts as several, one per 16 KiB
	askAtOnce  = 16       // servers that are asked about one task concurrently
	askTurns   = 4        // lookups of one caller at once
	maxHomes   = 4096     // entries of taskFinder.homes
	maxTask    = 1 << 10  // max bytes of a task id; servers do not know longer ones
)

// taskFinder finds the server that has a task. It is safe for concurrent use.
type taskFinder struct {
	asks *rate.Limiter

	mu    sync.Mutex // guards what follows
	homes map[taskKey]string
	turns map[string]*turns // by caller
}

// taskKey identifies a task by its caller and id.
type taskKey struct{ caller, id string }

// turns bounds the concurrent lookups of one caller, so that one who polls without pause does not delay others.
type turns struct {
	taken chan struct{} // one token per lookup
	users int           // lookups that run or wait
}

func newTaskFinder() *taskFinder {
	return &taskFinder{
		asks:  rate.NewLimiter(askRate, askRate),
		homes: make(map[taskKey]string),
		turns: make(map[string]*turns),
	}
}

// forwardFunc forwards a request to one server and writes the response to w, see [RemoteServers]. Status 404 means
// that the server does not have the task.
type forwardFunc func(ctx context.Context, w http.ResponseWriter, home string) (began bool, err error)

// serve forwards a request of size bytes to the one server of homes that has the task. If found is false, nothing was
// written to w: no server has the task, or err says why that is unknown. If found is true, err says why the response is
// incomplete.
func (t *taskFinder) serve(ctx context.Context, w http.ResponseWriter, key taskKey, size int, homes []string,
	forward forwardFunc) (found bool, err error) {
	t.mu.Lock()
	home := t.homes[key]
	t.mu.Unlock()
	if home != "" {
		if found, err = t.ask(ctx, w, key, []string{home}, forward); found || err != nil {
			return found, err
		}
	}
	if len(homes) == 0 || len(key.id) > maxTask {
		return false, nil
	}
	leave, ok := t.enter(ctx, key.caller, len(homes)*(1+size/askBytes))
	if !ok {
		return false, protocol.Errorf(protocol.Overloaded,
			"too many tasks of other nodes are looked for; ask again later")
	}
	defer leave()
	return t.ask(ctx, w, key, homes, forward)
}

// enter waits for a turn of the caller, and until the rate limit admits so many requests. leave ends the turn.
func (t *taskFinder) enter(ctx context.Context, caller string, requests int) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	t.mu.Lock()
	own := t.turns[caller]
	if own == nil {
		own = &turns{taken: make(chan struct{}, askTurns)}
		t.turns[caller] = own
	}
	own.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.turns, caller)
		}
	}
	select {
	case own.taken <- struct{}{}:
	case <-ctx.Done():
		gone()
		return nil, false
	}
	leave = func() {
		<-own.taken
		gone()
	}
	if t.asks.WaitN(ctx, min(requests, askRate)) != nil {
		leave()
		return nil, false
	}
	return leave, true
}

// ask forwards to the given servers concurrently. The first response other than 404 wins. Several servers must answer
// within askTimeout; a single one has no limit. The error is the winner's, or says that some did not answer.
func (t *taskFinder) ask(ctx context.Context, w http.ResponseWriter, key taskKey, homes []string, forward forwardFunc,
) (found bool, err error) {
	r := &race{to: w}
	if len(homes) > 1 {
		late := time.AfterFunc(askTimeout, func() { r.close(nil) })
		defer late.Stop()
	}
	var all sync.WaitGroup
	silent := make(chan string, len(homes))
	turn := make(chan struct{}, askAtOnce)
	for _, home := range homes {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			of := &runner{race: r, cancel: cancel, header: make(http.Header)}
			var failed error
			if r.enter(of) {
				_, failed = forward(ctx, of, home)
			}
			switch {
			case r.wonBy(of):
				err = failed
				t.keep(key, home)
			case of.status == 0 && !isUnsent(failed):
				silent <- home
			}
		})
	}
	all.Wait()
	if r.close(nil); r.winner != nil {
		return true, err
	}
	switch len(silent) {
	case 0:
		t.keep(key, "")
		return false, nil
	case 1:
		t.keep(key, <-silent) // this server may only be slow: ask it first next time
	}
	return false, &protocol.Error{
		Kind:    protocol.NodeLost,
		Outcome: "unknown",
		Message: "not all other nodes have answered whether they have the task",
	}
}

func (t *taskFinder) keep(key taskKey, home string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case home == "":
		delete(t.homes, key)
	case len(t.homes) >= maxHomes:
		clear(t.homes) // the homes are found again
		fallthrough
	default:
		t.homes[key] = home
	}
}

// race gives the response to the first of several servers that does not answer 404.
type race struct {
	to http.ResponseWriter

	mu      sync.Mutex // guards what follows
	over    bool
	winner  *runner
	runners []*runner
}

func (r *race) enter(one *runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runners = append(r.runners, one)
	return !r.over
}

// close ends the race in favor of one, or of nobody if one is nil, unless it is already over. It reports whether one
// is the winner.
func (r *race) close(one *runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over, r.winner = true, one
		for _, other := range r.runners {
			if other != one {
				other.cancel()
			}
		}
	}
	return one != nil && r.winner == one
}

func (r *race) wonBy(one *runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.winner == one
}

// runner is the [http.ResponseWriter] of one server in a race.
type runner struct {
	race   *race
	cancel context.CancelFunc
	header http.Header
	status int
	won    bool
}

// Header implements [http.ResponseWriter].
func (r *runner) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *runner) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	if r.won = status != http.StatusNotFound && r.race.close(r); r.won {
		for name, values := range r.header {
			r.race.to.Header()[name] = values
		}
		r.race.to.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (r *runner) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !r.won {
		return len(p), nil // responses of losers are discarded
	}
	return r.race.to.Write(p)
}

// FlushError is for [http.ResponseController].
func (r *runner) FlushError() error {
	if !r.won {
		return nil
	}
	return http.NewResponseController(r.race.to).Flush()
}

// SetWriteDeadline is for [http.ResponseController].
func (r *runner) SetWriteDeadline(t time.Time) error {
	if !r.won {
		return nil
	}
	return http.NewResponseController(r.race.to).SetWriteDeadline(t)
}
