package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/daemon"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// running is the host that serves this directory, as its operator reaches it.
type running struct {
	info   daemon.Info
	client *http.Client
}

// running finds the host of this directory. That there is none is an error of
// its own, with the next command.
func (a *app) running(ctx context.Context) (*running, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	info, err := daemon.Find(ctx, state)
	if errors.Is(err, daemon.ErrNotRunning) {
		return nil, &exitError{code: exitNotFound, text: "no exthost is running for " + here(), hint: "exthost serve"}
	}
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return info.Dial(ctx) }
	return &running{info, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, nil
}

// reach reads the configuration and finds the host of this directory if it runs what
// that and the flags of this command say; else r is nil. A configuration that is broken
// by now, which is the error, keeps nobody from the host that runs, and a warning says so.
func (a *app) reach(ctx context.Context) (r *running, cfg *config.Config, err error) {
	r, absent := a.running(ctx)
	cfg, _, err = a.load()
	switch {
	case err == nil && (absent != nil || r.info.Scope != a.scope(cfg)):
		return nil, cfg, nil
	case err == nil:
		return r, cfg, nil
	case absent != nil || !a.sameFlags(r.info.Scope):
		return nil, nil, err
	}
	a.say(protocol.Diagnostic{Level: protocol.LevelWarn, Message: "the configuration is broken by now, and the exthost that runs goes on with what it was", Hint: "exthost validate says where"})
	return r, config.Default(), err
}

// answerPatience bounds what a host answers from memory.
const answerPatience = 10 * time.Second

func (r *running) status(ctx context.Context) (s status.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	return s, r.get(ctx, "/api/v1/status", &s)
}

func (r *running) tools(ctx context.Context, extension string) ([]httpserver.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	var list struct{ Tools []httpserver.Tool }
	return list.Tools, r.get(ctx, "/api/v1/tools?extension="+url.QueryEscape(extension), &list)
}

func (r *running) tool(ctx context.Context, name string) (t httpserver.Tool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	return t, r.get(ctx, "/api/v1/tools/"+url.PathEscape(name), &t)
}

func (r *running) call(ctx context.Context, name string, arguments json.RawMessage) (protocol.ToolResult, error) {
	var result json.RawMessage
	err := r.do(ctx, http.MethodPost, "/api/v1/tools/"+url.PathEscape(name)+"/call", arguments, &result)
	return protocol.ToolResult(bytes.TrimSuffix(result, []byte("\n"))), err
}

func (r *running) restart(ctx context.Context, id string) error {
	return r.do(ctx, http.MethodPost, "/api/v1/extensions/"+url.PathEscape(id)+"/restart", nil, nil)
}

func (r *running) reload(ctx context.Context, dryRun bool) (c status.Change, err error) {
	return c, r.ask(ctx, http.MethodPost, "/api/v1/reload?dry_run="+strconv.FormatBool(dryRun), &c)
}

func (r *running) get(ctx context.Context, path string, into any) error {
	return r.ask(ctx, http.MethodGet, path, into)
}

func (r *running) ask(ctx context.Context, method, path string, into any) error {
	return r.do(ctx, method, path, nil, into)
}

// do makes one request; a *json.RawMessage gets the answer as it is.
func (r *running) do(ctx context.Context, method, path string, body []byte, into any) error {
	answer, err := r.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	data, err := io.ReadAll(answer)
	if err != nil {
		return r.lost(ctx, err)
	}
	if raw, ok := into.(*json.RawMessage); ok {
		*raw = data
		return nil
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the running exthost (pid %d) answers what this one cannot read: %w; restart it if it is another version", r.info.PID, err)
	}
	return nil
}

// open makes a request and returns the body of the answer, or the error that it is.
func (r *running) open(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://exthost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, r.lost(ctx, err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var failed struct{ Error *httpserver.Fault }
	data, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(data, &failed) != nil || failed.Error == nil {
		return nil, fmt.Errorf("the running exthost (pid %d) answers %s to %s; restart it if it is another version", r.info.PID, resp.Status, path)
	}
	return nil, failed.Error.Err()
}

// lost is the error of a request that got no answer.
func (r *running) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err() // and not where it hit the connection
	} else if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &exitError{code: exitCanceled, text: fmt.Sprintf("the running exthost (pid %d) does not answer", r.info.PID), hint: "exthost logs"}
	}
	return &exitError{code: exitFailed, text: fmt.Sprintf("the running exthost (pid %d) went away before it answered: %v", r.info.PID, err), hint: "exthost status"}
}
