package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/daemon"
	"github.com/exthost/exthost/protocol"
)

// overStdio is what a host on stdio says that it serves.
const overStdio = "stdio"

// claim makes this process the one that the operator of the directory reaches.
// It returns nil when that is another's already, which is an error only where two
// HTTP hosts would share one state: clients start --stdio as often as they like.
func (a *app) claim(cfg *config.Config, stdio bool, log *slog.Logger) (*daemon.Daemon, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, nil // which the host refuses in its own words
	}
	info := daemon.Info{Scope: a.scope(cfg)}
	if stdio {
		info.Serves = overStdio
	}
	d, err := daemon.Claim(state, os.Getenv("XDG_RUNTIME_DIR"), info)
	if err == nil {
		return d, nil
	}
	holder, running := errors.AsType[*daemon.RunningError](err)
	switch {
	case stdio, errors.Is(err, errors.ErrUnsupported):
		log.Debug("no control socket", "error", err)
	case running && holder.Info.Serves != overStdio:
		return nil, alreadyRunning(holder.Info)
	case running:
		a.say(protocol.Diagnostic{Level: protocol.LevelWarn, Message: fmt.Sprintf("exthost serve --stdio, pid %d, runs in this directory too", holder.Info.PID),
			Hint: "exthost status, restart and logs speak to that one"})
	default:
		a.say(protocol.Diagnostic{Level: protocol.LevelWarn, Message: "no control socket: " + err.Error(), Hint: "exthost status, restart and logs do not reach this host"})
	}
	return nil, nil
}

func alreadyRunning(i daemon.Info) error {
	e := &exitError{code: exitFailed, text: "another exthost serves " + here() + " and keeps its state", hint: "exthost status"}
	if i.PID > 0 {
		e.text += fmt.Sprintf(": pid %d, %s", i.PID, cmp.Or(i.Serves, "starting"))
		e.hint += fmt.Sprintf("; kill %d ends it", i.PID)
	}
	return e
}

// here is the working directory, for people.
func here() string {
	wd, err := os.Getwd()
	if err != nil {
		return "this directory"
	}
	return wd
}

// scope says which extensions a command speaks of, so that one with flags of its
// own does not take the running host for its own.
func (a *app) scope(cfg *config.Config) string {
	file := a.flags.config
	if abs, err := filepath.Abs(file); err == nil && file != "" {
		file = abs
	}
	scope, _ := json.Marshal([]any{file, cfg.Extensions.SearchPaths}) // strings always encode
	return string(scope)
}

// sameFlags reports whether a scope is that of a host with the flags of this command.
// What the configuration says of search paths is not compared.
func (a *app) sameFlags(scope string) bool {
	var file string
	var paths []string
	if json.Unmarshal([]byte(scope), &[]any{&file, &paths}) != nil {
		return false
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = paths
	return len(a.flags.extensions) == 0 && a.scope(cfg) == scope
}

// me is the user who runs this process, and so the only one that its control socket
// lets in.
func me() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"), fmt.Sprintf("user %d", os.Getuid()))
}

// control serves the operator's API on the socket of d, which may be nil. The
// function it returns ends that: once the host is closed, so that its last words
// are heard.
func control(d *daemon.Daemon, f front, h *exthost.Host, log *slog.Logger) (end func() error) {
	if d == nil {
		return func() error { return nil }
	}
	if f.url != "" {
		if err := d.Serves(f.url + "/mcp"); err != nil {
			log.Warn("exthost status will not know the address", "error", err)
		}
	}
	server := &http.Server{Handler: httpserver.Admin(h), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return httpserver.WithOperator(context.Background(), me()) }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(d.Listener(log)) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), httpShutdown)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		err := <-served
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		return errors.Join(err, d.Close())
	}
}
