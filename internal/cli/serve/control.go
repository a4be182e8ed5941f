package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/host/stateformat"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/protocol"
)

// overStdio is what a host on stdio reports as its address.
const overStdio = "stdio"

// claim makes this process a host that the operator of the directory can reach. It returns nil if it cannot. Only a
// second HTTP host is an error, because it would share the state of the first; with --stdio --own, clients may start
// several hosts.
func (r *run) claim(cfg *config.Config) (*daemon.Daemon, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, nil // exthost.Open fails with the same error
	}
	if err := stateformat.Check(state); err != nil { // before anything is written there
		return nil, err
	}
	info := daemon.Info{Scope: hosts.Scope(r.console, cfg), LogCopy: cfg.Log.File}
	if !r.stdio { // else clients start it again
		info.Command = startedAs(os.Args[1:])
	}
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	if r.stdio {
		info.Serves = overStdio
	}
	if r.background == asHost {
		return claimNext(state, runtimeDir, info)
	}
	d, err := daemon.Claim(state, runtimeDir, info)
	if err == nil {
		return d, nil
	}
	holder, running := errors.AsType[*daemon.RunningError](err)
	if running && r.as != "" { // the command that removes the client must find this host
		if d, next := claimNext(state, runtimeDir, info); next == nil {
			return d, nil
		}
	}
	switch {
	case r.stdio, errors.Is(err, errors.ErrUnsupported):
		r.log.Debug("no control socket", "error", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return nil, &console.Error{Code: console.ExitFailed, Text: "no control socket: " + err.Error(), Hint: noFiles}
	case running && holder.Info.Serves != overStdio:
		return nil, alreadyRunning(state, holder.Info)
	case running:
		r.console.Say(protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Message: fmt.Sprintf("exthost serve --stdio, pid %d, runs in this directory too", holder.Info.PID),
			Hint:    "exthost status, restart and logs speak to that one; exthost stop ends it",
		})
		return claimNext(state, runtimeDir, info)
	default:
		r.console.Say(protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Message: "no control socket: " + err.Error(),
			Hint:    "exthost status, restart and logs do not reach this host",
		})
	}
	return nil, nil
}

// startedAs returns the command line of exthost with these arguments for a shell, without secrets.
func startedAs(args []string) string {
	return text.ShellLine(new(redact.Redactor).Strings(slices.Insert(slices.Clone(args), 0, "exthost")))
}

// claimNext makes this process one more host of the directory.
func claimNext(state, runtimeDir string, info daemon.Info) (*daemon.Daemon, error) {
	d, err := daemon.ClaimNext(state, runtimeDir, info)
	if _, running := errors.AsType[*daemon.RunningError](err); running {
		return nil, &console.Error{
			Code: console.ExitFailed,
			Text: "too many hosts run in " + hosts.Here() + ", each with another configuration or environment",
			Hint: "exthost stop ends them",
		}
	}
	return d, err
}

// alreadyRunning returns the error for a second host of a state directory; i is the first one.
func alreadyRunning(state string, i daemon.Info) error {
	e := &console.Error{
		Code: console.ExitFailed,
		Text: "another host serves " + hosts.Here() + " and keeps its state",
		Hint: "exthost status",
	}
	found, err := daemon.Find(context.Background(), state)
	switch {
	case err == nil && found.Stopped(): // no command of exthost reaches it
		stopped := hosts.StoppedError(found)
		e.Text, e.Hint = e.Text+": "+stopped.Text, stopped.Hint
	case i.PID > 0:
		e.Text += fmt.Sprintf(": pid %d, %s", i.PID, cmp.Or(i.Serves, "starting"))
		e.Hint += "; exthost stop ends it"
	}
	return e
}

// admin returns the operator's API of h.
func (r *run) admin(h *exthost.Host) http.Handler {
	return httpserver.Admin(h, trust.Desk{Console: r.console, Flags: r.flags})
}

// control serves the operator's API on the socket of the daemon; without a daemon it serves nothing. Call end after the
// host is closed, so that the host's last messages are sent.
func (r *run) control(f front, h *exthost.Host) (end func() error) {
	d, log := r.daemon, r.log
	if d == nil {
		return func() error { return nil }
	}
	if f.url != "" {
		if err := d.Serves(f.url + "/mcp"); err != nil {
			log.Warn("exthost status will not know the address", "error", err)
		}
	}
	server := &http.Server{
		Handler:           ownersOnly(r.admin(h)),
		ConnContext:       withRefusal,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context {
			return httpserver.WithOperator(context.Background(), hosts.Operator())
		},
	}
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

type refusalKey struct{}

// withRefusal decides whether to refuse the peer process of a connection. It does so when the connection is new, while
// the process still waits for a response.
func withRefusal(ctx context.Context, c net.Conn) context.Context {
	if daemon.OfRoot(c) {
		ctx = httpserver.WithOperator(ctx, "root") // approvals record the operator's name
	}
	return context.WithValue(ctx, refusalKey{}, daemon.Refusal(c))
}

// ownersOnly refuses the operator's API to descendants of extensions.
func ownersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why, _ := r.Context().Value(refusalKey{}).(string); why != "" {
			httpserver.Refuse(w, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// operatorToken authenticates the operator at the API and the dashboard of one run.
type operatorToken struct {
	text string
	file string
}

// newOperatorToken creates a token and writes it to a file that only this user can read.
func newOperatorToken() (operatorToken, error) {
	file, err := hosts.TokenFile()
	if err != nil {
		return operatorToken{}, err
	}
	t := operatorToken{text: rand.Text(), file: file}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return t, err
	}
	if err := os.Remove(t.file); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a host that was killed
		return t, err
	}
	f, err := os.OpenFile(t.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return t, err
	}
	_, err = f.WriteString(t.text + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(t.file)
	}
	return t, err
}

// forget removes the file if it still has this token.
func (t operatorToken) forget() {
	if kept, err := os.ReadFile(t.file); err == nil && string(kept) == t.text+"\n" {
		_ = os.Remove(t.file) // a token that stays is useless by now
		if page, err := hosts.DashboardFile(); err == nil {
			_ = os.Remove(page) // contains the token
		}
	}
}

// rereadTLS reads the certificate of the front again, as part of each reload.
func (f *front) rereadTLS(log *slog.Logger) {
	if f.reload == nil {
		return
	}
	if err := f.reload(); err != nil {
		log.Error("the certificate is not read again, the previous one stays in use", "error", err)
	}
}
