package forward

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/protocol"
)

const (
	// for several servers to say which of them has a task, and for a turn to ask them
	askTimeout = 500 * time.Millisecond
	askRate    = 200      // requests to other servers, a second, that look for tasks
	askBytes   = 16 << 10 // of a request that count as one
	askAtOnce  = 16       // servers that are asked for one task
	askTurns   = 4        // tasks of one caller that are looked for at once
	maxHomes   = 4096     // tasks of which the home is known
	maxTask    = 1 << 10  // bytes of the id of a task that servers know
)

// tasks finds the server that has a task. Its methods may be called by many goroutines at once.
type tasks struct {
	asks *rate.Limiter

	mu    sync.Mutex // guards what follows
	homes map[task]string
	turns map[string]*turns // by caller
}

// task is a task of a caller.
type task struct{ caller, id string }

// turns are those of one caller to look for tasks: one who polls without end keeps nobody else waiting.
type turns struct {
	taken chan struct{} // holds a token for each
	users int           // who have a turn or wait for one
}

func newTasks() *tasks {
	return &tasks{asks: rate.NewLimiter(askRate, askRate), homes: make(map[task]string), turns: make(map[string]*turns)}
}

// carry carries a request to one server and writes the response to w, see [mcpserver.Elsewhere].
// The response has status 404 if the server does not have the task.
type carry func(ctx context.Context, w http.ResponseWriter, home string) (began bool, err error)

// serve has the server that has a task answer a request of size bytes about it. homes are the other
// servers. found is false, and w is not written to, if none has the task, or with an error if nobody can
// tell. An error with found says why the response is cut.
func (t *tasks) serve(ctx context.Context, w http.ResponseWriter, one task, size int, homes []string, to carry,
) (found bool, err error) {
	t.mu.Lock()
	home := t.homes[one]
	t.mu.Unlock()
	if home != "" {
		if found, err = t.ask(ctx, w, one, []string{home}, to); found || err != nil {
			return found, err
		}
	}
	if len(homes) == 0 || len(one.id) > maxTask {
		return false, nil
	}
	leave, ok := t.enter(ctx, one.caller, len(homes)*(1+size/askBytes))
	if !ok {
		return false, protocol.Errorf(protocol.Overloaded,
			"too many tasks of other nodes are looked for; ask again later")
	}
	defer leave()
	return t.ask(ctx, w, one, homes, to)
}

// enter waits for a turn of a caller, and until so many requests more are within the rate.
func (t *tasks) enter(ctx context.Context, caller string, requests int) (leave func(), ok bool) {
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

// ask asks servers at once. The first that does not answer 404 has the response. One alone may take its
// time. The error is that of the response, or says that some have not answered.
func (t *tasks) ask(ctx context.Context, w http.ResponseWriter, one task, homes []string, to carry,
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
				_, failed = to(ctx, of, home)
			}
			switch {
			case r.wonBy(of):
				err = failed
				t.keep(one, home)
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
		t.keep(one, "")
		return false, nil
	case 1:
		t.keep(one, <-silent) // which may need longer to answer
	}
	return false, &protocol.Error{
		Kind:    protocol.NodeLost,
		Outcome: "unknown",
		Message: "not all other nodes have answered whether they have the task",
	}
}

func (t *tasks) keep(one task, home string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case home == "":
		delete(t.homes, one)
	case len(t.homes) >= maxHomes:
		clear(t.homes) // they are found again
		fallthrough
	default:
		t.homes[one] = home
	}
}

// race is for one response, which the first of several servers writes.
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

// close ends the race, which one has won, nil for nobody, unless it is over. It reports whether one
// has won.
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
		return len(p), nil // nobody reads what does not win
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
