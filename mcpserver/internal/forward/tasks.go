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
	askTimeout = 500 * time.Millisecond // for the servers to say which of them has a task
	askRate    = 10                     // of tasks that all servers are asked for, a second
	askAtOnce  = 16                     // servers that are asked for one task
	maxHomes   = 4096                   // tasks of which the home is known
)

// tasks finds the server that has a task. Its methods may be called by many goroutines at once.
type tasks struct {
	asks *rate.Limiter

	mu    sync.Mutex // guards what follows
	homes map[string]string
}

func newTasks() *tasks {
	return &tasks{asks: rate.NewLimiter(askRate, askRate), homes: make(map[string]string)}
}

// carry carries a request to one server and writes the response to w, see [mcpserver.Elsewhere].
// The response has status 404 if the server does not have the task.
type carry func(ctx context.Context, w http.ResponseWriter, home string) (began bool, err error)

// serve has the server that has a task answer a request about it. task is the task with its caller;
// homes are the other servers. found is false, and w is not written to, if none has the task, or with an
// error if too many tasks are looked for. An error with found says why the response is cut.
func (t *tasks) serve(ctx context.Context, w http.ResponseWriter, task string, homes []string, to carry) (found bool, err error) {
	t.mu.Lock()
	home := t.homes[task]
	t.mu.Unlock()
	if home != "" {
		if found, err = t.ask(ctx, w, task, []string{home}, to); found {
			return found, err
		}
	}
	if len(homes) == 0 {
		return false, nil
	}
	waiting, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if t.asks.Wait(waiting) != nil {
		return false, protocol.Errorf(protocol.Overloaded, "tasks of other nodes are looked for more than %d times a second", askRate)
	}
	return t.ask(ctx, w, task, homes, to)
}

// ask asks servers at once. The first that does not answer 404 has the response.
func (t *tasks) ask(ctx context.Context, w http.ResponseWriter, task string, homes []string, to carry) (found bool, err error) {
	r := &race{to: w}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(askTimeout, func() { r.close(nil) })
	defer late.Stop()
	var all sync.WaitGroup
	turn := make(chan struct{}, askAtOnce)
	for _, home := range homes {
		all.Go(func() {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-asking.Done():
				return
			}
			ctx, cancel := context.WithCancel(asking)
			defer cancel()
			one := &runner{race: r, cancel: cancel, header: make(http.Header)}
			if !r.enter(one) {
				return
			}
			_, failed := to(ctx, one, home)
			if r.wonBy(one) {
				err = failed
				t.keep(task, home)
			}
		})
	}
	all.Wait()
	found = r.winner != nil
	if !found {
		t.keep(task, "")
	}
	return found, err
}

func (t *tasks) keep(task, home string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case home == "":
		delete(t.homes, task)
	case len(t.homes) >= maxHomes:
		clear(t.homes) // they are found again
		fallthrough
	default:
		t.homes[task] = home
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
