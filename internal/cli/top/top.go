//go:build !slim

package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// framesPerSecond is how often the screen is drawn at most.
const framesPerSecond = 10

var watch = draw

// draw shows r until a key ends it, the host ends or ctx does.
func draw(ctx context.Context, c *console.Console, r *hosts.Running) error {
	ctx, cancel := context.WithCancel(ctx)
	p := &poster{ctx: ctx, running: r}
	m := newModel(p, r.Info.Serves, time.Now)
	m.colours = c.ColoursOn(c.Out)
	p.program = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(c.In), tea.WithOutput(c.Out),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	p.tasks.Go(p.follow)
	last, err := p.program.Run()
	cancel()
	p.tasks.Wait()
	if end, ok := last.(*model); ok && end.ended != nil {
		return end.ended
	}
	if errors.Is(err, tea.ErrProgramKilled) { // by the end of ctx
		return nil
	}
	return err
}

// poster makes requests of the host, and sends what comes of them to the program.
type poster struct {
	ctx     context.Context // ends with the program
	running *hosts.Running
	program *tea.Program
	tasks   sync.WaitGroup // its goroutines
}

var _ operator = (*poster)(nil)

// follow sends the events of the host until the host or ctx ends.
func (p *poster) follow() {
	err := p.running.Follow(p.ctx, "/api/v1/events?kinds=status,call,approvals", func(data []byte) error {
		msg, err := readEvent(data)
		if err == nil && msg != nil {
			p.program.Send(msg)
		}
		return err
	})
	if err == nil {
		err = &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("the host with pid %d has ended", p.running.Info.PID),
			Hint: "exthost status",
		}
	}
	p.program.Send(endedMsg{err})
}

// readEvent reads an event of the stream; nil for one that is not shown.
func readEvent(data []byte) (tea.Msg, error) {
	var kind struct {
		Kind    status.EventKind `json:"kind"`
		Version string           `json:"version"` // of a status, which has no kind
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("an event that cannot be read: %w", err)
	}
	if kind.Kind == "" && kind.Version != "" {
		var s status.Status
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("a status that cannot be read: %w", err)
		}
		return statusMsg(s), nil
	}
	var e status.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("an event that cannot be read: %w", err)
	}
	switch {
	case e.Call != nil:
		return callMsg(status.PastCall{Time: e.Time, CallEvent: *e.Call}), nil
	case e.Approvals != nil:
		return approvalsMsg(*e.Approvals), nil
	}
	return nil, nil
}

// restart implements operator.
func (p *poster) restart(id string) { p.post("extensions", id, "restart", "restarted "+id) }

// answer implements operator.
func (p *poster) answer(id string, approve bool) {
	if approve {
		p.post("approvals", id, "approve", "approved")
	} else {
		p.post("approvals", id, "deny", "denied")
	}
}

func (p *poster) post(kind, id, verb, done string) {
	p.tasks.Go(func() {
		err := p.running.Post(p.ctx, "/api/v1/"+kind+"/"+url.PathEscape(id)+"/"+verb, []byte("{}"), nil)
		p.program.Send(doneMsg{done, err})
	})
}

// tap implements operator.
func (p *poster) tap(id string) (stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.tasks.Go(func() {
		err := p.running.Follow(ctx, "/api/v1/tap?extension="+url.QueryEscape(id), func(data []byte) error {
			var f status.Frame
			if err := json.Unmarshal(data, &f); err != nil {
				return fmt.Errorf("a frame that cannot be read: %w", err)
			}
			p.program.Send(frameMsg(f))
			return nil
		})
		if err != nil && ctx.Err() == nil {
			p.program.Send(doneMsg{"", err})
		}
	})
	return cancel
}
