package hosts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Running is the host that serves this directory, reached through its operator's socket.
type Running struct {
	Info daemon.Info
	// Apart is set if the host has another state directory and other configuration files than a host of this user in
	// this directory would have.
	Apart  bool
	client *http.Client
}

// Find finds the host that --host selects, else the host of this directory. If there is none, the error has
// [console.ExitNotFound].
func Find(ctx context.Context) (*Running, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	choice := choiceOf(ctx)
	if choice.host == "" {
		info, err := daemon.Find(ctx, state)
		if err == nil {
			return running(info), nil
		}
		if !errors.Is(err, daemon.ErrNotRunning) {
			return nil, err
		}
	}
	return choice.find(ctx, state)
}

func running(info daemon.Info) *Running {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return info.Dial(ctx) }
	return &Running{
		Info:   info,
		client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// Everywhere returns the running hosts of this user in all directories.
func Everywhere(ctx context.Context) (all []*Running, err error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	dirs, _ := filepath.Glob(filepath.Join(filepath.Dir(state), "*"))
	for _, dir := range dirs {
		found, _ := daemon.FindAll(ctx, dir) // the hosts that answer
		for _, info := range found {
			all = append(all, running(info))
		}
	}
	return all, ctx.Err()
}

// OnMachine returns the hosts of this machine that this user may reach. others is the number of those of other users.
func OnMachine(ctx context.Context) (all []*Running, others int, err error) {
	found, others := daemon.Machine(ctx)
	for _, info := range found {
		all = append(all, running(info))
	}
	here, err := Everywhere(ctx) // systems on which Machine finds none
	for _, r := range here {
		if !slices.ContainsFunc(all, func(known *Running) bool { return known.Info.Socket == r.Info.Socket }) {
			all = append(all, r)
		}
	}
	return all, others, err
}

// User returns the name of the host's user, else its uid.
func (r *Running) User() string { return strings.TrimPrefix(userName(r.Info.UID), "user ") }

// ReloadClients makes all running hosts of this user, in any directory, reload their clients, because most hosts read
// the same file. failed says which hosts have not applied it, and why.
func ReloadClients(ctx context.Context) (applied int, failed []string, err error) {
	all, err := Everywhere(ctx)
	for _, r := range all {
		short, cancel := context.WithTimeout(ctx, AnswerTimeout)
		err := r.Post(short, "/api/v1/clients/reload", nil, nil)
		cancel()
		if err != nil {
			failed = append(failed, fmt.Sprintf("pid %d: %v", r.Info.PID, err))
		} else {
			applied++
		}
	}
	return applied, failed, err
}

// UnknownClient returns the error for an unknown client name.
func UnknownClient(name string, known []string) *console.Error {
	return &console.Error{
		Code: console.ExitNotFound,
		Text: fmt.Sprintf("there is no client %.80q%s", name, console.DidYouMean(name, known)),
		Hint: "exthost client list; exthost client add NAME adds one",
	}
}

// CheckClient returns the error for a name that a client without a token cannot have: there is no such client, or its
// scope needs the token.
func CheckClient(name string, all map[string]config.Client) *console.Error {
	c, known := all[name]
	switch {
	case !known:
		return UnknownClient(name, slices.Sorted(maps.Keys(all)))
	case c.Scope != "":
		return &console.Error{
			Code: console.ExitDenied,
			Text: fmt.Sprintf("client %s has the scope %s, and calls no tools", name, c.Scope),
			Hint: "exthost client add NAME adds another; exthost client set " + name + " --scope= takes the scope away",
		}
	}
	return nil
}

// OnRunning returns the body of a command that needs the running host.
func OnRunning(do func(ctx context.Context, r *Running, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := Find(cmd.Context())
		if err != nil {
			return err
		}
		if r.Info.Stopped() {
			return StoppedError(r.Info)
		}
		return do(cmd.Context(), r, args)
	}
}

// Operator returns the name of this process's user, the only one whom a control socket admits. It is recorded as the
// approver.
func Operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"), fmt.Sprintf("user %d", os.Getuid()))
}

// Here returns the working directory, for people.
func Here() string {
	wd, err := os.Getwd()
	if err != nil {
		return "this directory"
	}
	return wd
}

// AnswerTimeout is the timeout of requests that a host answers from memory.
const AnswerTimeout = 10 * time.Second

// Status returns the status of the running host.
func (r *Running) Status(ctx context.Context) (s status.Status, err error) {
	err = r.Get(ctx, "/api/v1/status", &s)
	return s, err
}

// Worker is [Worker] for the running host.
func (r *Running) Worker(ctx context.Context, id string) (status.Extension, error) {
	s, err := r.Status(ctx)
	if err != nil {
		return status.Extension{}, err
	}
	return Worker(s, id)
}

// Get reads a resource of the operator's API, within [AnswerTimeout].
func (r *Running) Get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	return r.do(ctx, http.MethodGet, path, nil, into)
}

// Post makes a request of the operator's API without a timeout; into may be nil.
func (r *Running) Post(ctx context.Context, path string, body []byte, into any) error {
	return r.do(ctx, http.MethodPost, path, body, into)
}

// Call calls a tool, without a timeout. It passes each report of progress that arrives before the result to report.
func (r *Running) Call(ctx context.Context, path string, arguments []byte, report func(protocol.Progress),
) (json.RawMessage, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answer, err := r.open(inner, http.MethodPost, path, arguments)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	defer r.guard(inner, cancel)()
	for lines := json.NewDecoder(answer); ; {
		var line httpserver.CallLine
		if err := lines.Decode(&line); err != nil {
			if context.Cause(inner) == context.DeadlineExceeded {
				err = context.DeadlineExceeded
			}
			return nil, r.lost(ctx, http.MethodPost, err)
		}
		switch {
		case line.Error != nil:
			return nil, line.Error.Err()
		case line.Progress == nil:
			return line.Result, nil
		}
		report(*line.Progress)
	}
}

func (r *Running) do(ctx context.Context, method, path string, body []byte, into any) error {
	answer, err := r.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	data, err := readAll(answer)
	if err != nil {
		return r.lost(ctx, method, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the running host (pid %d) answers what this one cannot read: %w; restart it if it is "+
			"another version", r.Info.PID, err)
	}
	return nil
}

// Follow calls show with the data of each event of a stream. The end of the stream or of ctx is no error.
func (r *Running) Follow(ctx context.Context, path string, show func(data []byte) error) error {
	return r.FollowFrom(ctx, path, func() error { return nil }, show)
}

// FollowFrom is [Running.Follow], and calls begun when the stream has begun.
func (r *Running) FollowFrom(ctx context.Context, path string, begun func() error, show func(data []byte) error) error {
	stream, err := r.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := begun(); err != nil {
		return err
	}
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // Ctrl-C, or the end of the host
		}
		if err != nil {
			return err
		}
		if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok {
			if err := show([]byte(data)); err != nil {
				return err
			}
		}
	}
}

// Stream opens a streamed resource of the operator's API, which the host sends until ctx ends.
func (r *Running) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	return r.open(ctx, http.MethodGet, path, nil)
}

// readAll reads a response body within [AnswerTimeout].
func readAll(answer io.ReadCloser) ([]byte, error) {
	timer := time.AfterFunc(AnswerTimeout, func() { _ = answer.Close() })
	data, err := io.ReadAll(answer)
	if !timer.Stop() && err != nil {
		err = context.DeadlineExceeded
	}
	return data, err
}

// open makes a request and returns the body of the response, or the error in it. The request has no timeout; it fails
// if the host meanwhile stops answering other requests.
func (r *Running) open(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	if r.Info.Stopped() {
		return nil, StoppedError(r.Info)
	}
	inner, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(inner, method, "http://exthost"+path, bytes.NewReader(body))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	unguard := r.guard(inner, cancel)
	resp, err := r.client.Do(req)
	unguard()
	if err != nil {
		if context.Cause(inner) == context.DeadlineExceeded {
			err = context.DeadlineExceeded
		}
		cancel(nil)
		return nil, r.lost(ctx, method, err)
	}
	resp.Body = &canceling{resp.Body, func() { cancel(nil) }}
	if resp.StatusCode < http.StatusBadRequest {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var failed struct{ Error *httpserver.Fault }
	data, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(data, &failed) != nil || failed.Error == nil {
		return nil, fmt.Errorf("the running host (pid %d) answers %s to %s; restart it if it is another version",
			r.Info.PID, resp.Status, path)
	}
	return nil, failed.Error.Err()
}

// canceling is a response body whose Close also cancels the request.
type canceling struct {
	io.ReadCloser
	cancel func()
}

// Close implements [io.Closer].
func (c *canceling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

// guardPause is the time between two checks whether a host still answers.
const guardPause = 3 * time.Second

// guard checks repeatedly that the host answers, until unguard is called. If it has not answered within
// [AnswerTimeout], guard calls end.
func (r *Running) guard(ctx context.Context, end context.CancelCauseFunc) (unguard func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(guardPause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if !r.answers(ctx) && ctx.Err() == nil {
				end(context.DeadlineExceeded)
				return
			}
		}
	})
	return func() { cancel(); asking.Wait() }
}

// answers reports whether the host answers a request within [AnswerTimeout]. It also returns true if the host has
// ended, because the guarded request then fails by itself.
func (r *Running) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://exthost/", nil)
	if err != nil {
		return true
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return ctx.Err() == nil && !errors.Is(err, syscall.EAGAIN)
	}
	_ = resp.Body.Close()
	return true
}

// StoppedError returns the error for a host whose process is stopped.
func StoppedError(i daemon.Info) *console.Error {
	return &console.Error{
		Code: console.ExitCanceled,
		Text: fmt.Sprintf("the running host (pid %d) is stopped, by SIGSTOP or Ctrl-Z, and answers nobody", i.PID),
		Hint: fmt.Sprintf("kill -CONT %d, or fg in its terminal, has it go on; kill -KILL %d ends it", i.PID, i.PID),
	}
}

// lost returns the error for a request without a response.
func (r *Running) lost(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err() // err only says which read or write ctx ended
	} else if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	e := &console.Error{
		Code: console.ExitFailed,
		Text: fmt.Sprintf("the running host (pid %d) ended before it answered", r.Info.PID),
		Hint: "exthost status",
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case r.Info.Stopped():
		e = StoppedError(r.Info)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.EAGAIN):
		e = &console.Error{
			Code: console.ExitCanceled,
			Text: fmt.Sprintf("the running host (pid %d) does not answer", r.Info.PID),
			Hint: "exthost logs",
		}
	}
	if dial, ok := errors.AsType[*net.OpError](err); method == http.MethodPost && !(ok && dial.Op == "dial") {
		e.Text += "; what it was asked to do may have been done"
	}
	return e
}

// Scope identifies the flags that decide which extensions a command is about. A running host with another scope cannot
// answer for the command.
func Scope(c *console.Console, cfg *config.Config) string {
	scope, _ := json.Marshal([]any{configFile(c), cfg.Extensions.SearchPaths, c.NoProject}) // strings always encode
	return string(scope)
}

func configFile(c *console.Console) string {
	if abs, err := filepath.Abs(c.Config); err == nil && c.Config != "" {
		return abs
	}
	return c.Config
}

// sameFlags reports whether scope was made with the flags of c. It does not compare the configured search paths.
func sameFlags(c *console.Console, scope string) bool {
	var file string
	err := json.Unmarshal([]byte(scope), &[]any{&file})
	return err == nil && len(c.Extensions) == 0 && file == configFile(c)
}

// Reach reads the configuration and finds the host of this directory that runs with this configuration and with the
// flags of c; r is nil if there is none. If the configuration became invalid after the host started, Reach prints a
// warning and returns both r and err. It also returns both if r is [Running.Apart].
func Reach(ctx context.Context, c *console.Console) (r *Running, cfg *config.Config, err error) {
	r, absent := Find(ctx)
	if c.Host != "" && absent != nil {
		return nil, nil, absent
	}
	if absent == nil && r.Apart {
		return r, config.Default(), r.NeedsFiles()
	}
	cfg, _, err = Load(c)
	if err == nil {
		if absent != nil || r.Info.Scope != Scope(c, cfg) {
			r = nil
		}
		return r, cfg, nil
	}
	refused, ok := errors.AsType[config.Refused](err)
	if !ok || absent != nil || !sameFlags(c, r.Info.Scope) {
		return nil, nil, err
	}
	sayBroken(c, onlyErrors(refused))
	return r, config.Default(), err
}
