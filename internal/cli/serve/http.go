package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/peer"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// httpShutdown is how long HTTP requests may take to end. It is a part of the 5 s in which the host ends.
const httpShutdown = time.Second

// httpFront returns the front for HTTP. It opens the port, so that a port in use is an error before any extension
// starts. headers is the value of governance.headers.
func (r *run) httpFront(cfg config.Server, headers []string) (f front, err error) {
	token, err := bearerToken(cfg.Auth)
	if err != nil {
		return f, err
	}
	if d := httpserver.CheckTLS(httpserver.TLS(cfg.TLS)); d != nil && d.Level == protocol.LevelError {
		return f, &console.Error{Code: console.ExitInvalid, Text: d.Message, Hint: d.Hint}
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return f, cannotListen(cfg.Listen, err)
	}
	defer func() {
		if err != nil {
			listener.Close()
		}
	}()
	if f, err = newFront(listener.Addr().(*net.TCPAddr), cfg, token); err != nil {
		return f, err
	}
	if err = checkToken(token, f.exposed, cfg.Listen, r.log); err != nil {
		return f, err
	}
	if f.operator, err = newOperatorToken(); err != nil {
		return f, &console.Error{
			Code: console.ExitFailed,
			Text: "there is no place for the operator's token: " + err.Error(),
			Hint: "make room or access there, or set XDG_STATE_HOME to another directory",
		}
	}
	var serving atomic.Pointer[httpserver.Server]
	f.reload = func() error {
		if s := serving.Load(); s != nil {
			return s.ReloadTLS()
		}
		return nil // the server reads its files when it starts
	}
	operator := f.operator.text
	f.serve = func(ctx context.Context, h *exthost.Host) error {
		o := httpOptions(cfg, headers, h, token, operator)
		o.Admin = r.admin(h)
		if r.node != nil {
			o.MCP.Remote = r.node.RemoteServers()
		}
		server := httpserver.New(o)
		serving.Store(server)
		h.Admin().ServedBy(func() status.Server {
			report := server.Report()
			report.Dashboard = f.url + "/ui/"
			return report
		})
		if r.daemon != nil {
			return server.Serve(ctx, r.daemon.Yield(listener))
		}
		return server.Serve(ctx, listener)
	}
	return f, nil
}

// newFront describes who can connect to addr. It returns an error if other machines can connect without a token.
func newFront(addr *net.TCPAddr, cfg config.Server, token string) (front, error) {
	f := front{url: urlOf(addr, cfg.TLS.Cert != ""), exposed: !addr.IP.IsLoopback()}
	f.clients = slices.Sorted(maps.Keys(cfg.Clients))
	open := token == "" && cfg.Auth.OAuth.Issuer == "" && f.clients == nil
	f.anyone = open && (cfg.Auth.Loopback == config.LoopbackAny || runtime.GOOS != "linux")
	if token != "" || f.clients != nil {
		f.token = cmp.Or(cfg.Auth.TokenEnv, "EXTHOST_TOKEN")
	}
	if f.exposed && open {
		return f, &console.Error{
			Code: console.ExitInvalid,
			Text: cfg.Listen + " can be reached from other machines, and no token is set",
			Hint: "exthost client add NAME gives a client a token; or set server.auth.token_env in exthost.yaml, or " +
				"exthost serve --listen 127.0.0.1:7800",
		}
	}
	return f, nil
}

func httpOptions(cfg config.Server, headers []string, h *exthost.Host, token, operator string) httpserver.Options {
	o := httpserver.Options{
		Backend:  h,
		Serves:   h.Serves,
		Toolset:  cfg.Toolset,
		Toolsets: h.Toolsets(),
		Bridge:   h.Bridge(),
		Ready:    func() error { return readiness(h) },
		Verdict:  func() status.Verdict { return h.Admin().Status().Verdict },
		MaxConns: maxConns(process.OpenFiles()),
		MCP: mcpserver.Options{
			Name:    "exthost",
			Version: exthost.Version(),
			MaxBody: int64(cfg.MaxBody),
			Headers: headers,
		},
		Listen:          cfg.Listen,
		Token:           token,
		Clients:         h.Clients(),
		AnyLocalUser:    cfg.Auth.Loopback == config.LoopbackAny,
		AllowedOrigins:  cfg.AllowedOrigins,
		AllowedHosts:    cfg.AllowedHosts,
		TLS:             httpserver.TLS{Cert: cfg.TLS.Cert, Key: cfg.TLS.Key},
		OperatorToken:   operator,
		Logger:          h.Admin().Logger(),
		ShutdownTimeout: httpShutdown,
	}
	if a := cfg.Auth.OAuth; a.Issuer != "" {
		o.OAuth = &httpserver.OAuth{
			Resource: a.Resource,
			Issuer:   a.Issuer,
			Audience: a.Audience,
			KeysURL:  a.JWKSURL,
			Scopes:   a.Scopes,
		}
	}
	if cfg.Metrics {
		o.Metrics = httpserver.Metrics(h)
	}
	return o
}

// maxConns returns the limit of connections for a host that may have so many open files: half of them, so that
// processes can be started and operators be answered whatever clients do. It returns 0, the default limit, if the
// number is unknown or large.
func maxConns(files uint64) int {
	const large = 1 << 13
	if files == 0 || files >= large {
		return 0
	}
	return max(int(files/2), 16)
}

// noFiles is the next step of a host that cannot open a file more.
const noFiles = "raise the limit of open files (ulimit -n 1024, or LimitNOFILE of systemd), then exthost serve"

func cannotListen(addr string, err error) error {
	if sys, ok := errors.AsType[*os.SyscallError](err); ok {
		err = sys.Err
	}
	e := &console.Error{Code: console.ExitFailed, Text: "cannot listen on " + addr + ": " + err.Error()}
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Hint = noFiles
	case errors.Is(err, syscall.EADDRINUSE):
		e.Text += holder(addr)
		e.Text += "; stop that, or take another port, here any free one"
		e.Hint = startedAs(withListen(os.Args[1:], "127.0.0.1:0"))
	case errors.Is(err, syscall.EACCES):
		e.Hint = "exthost serve --listen 127.0.0.1:7800; ports below 1024 are the system's"
	default:
		e.Code, e.Hint = console.ExitInvalid, "exthost serve --listen HOST:PORT, such as 127.0.0.1:7800"
	}
	return e
}

// withListen returns args with another --listen.
func withListen(args []string, addr string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--listen":
			i++ // its value
		case !strings.HasPrefix(args[i], "--listen="):
			out = append(out, args[i])
		}
	}
	return append(out, "--listen", addr)
}

// holder describes what listens on the port of addr: another host of this user, or any other process; "" if unknown.
func holder(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), hosts.AnswerTimeout)
	defer cancel()
	all, _ := hosts.Everywhere(ctx)
	for _, r := range all {
		u, err := url.Parse(r.Info.Serves)
		if err != nil || u.Port() != port {
			continue
		}
		text := fmt.Sprintf("; another host listens there, pid %d", r.Info.PID)
		if where, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", r.Info.PID)); err == nil {
			text += ", started in " + where
		}
		return text
	}
	n, _ := strconv.ParseUint(port, 10, 16)
	switch pid, program, uid := peer.PortHolder(uint16(n)); {
	case pid > 0:
		return fmt.Sprintf("; %s listens there, pid %d", console.Safe(program), pid)
	case uid >= 0:
		return fmt.Sprintf("; a process of uid %d listens there", uid)
	}
	return ""
}

// readiness returns the error of /readyz: the first obstacle.
func readiness(h *exthost.Host) error {
	s := h.Status()
	obstacles := s.Obstacles()
	if len(obstacles) == 0 {
		return nil
	}
	kind := protocol.NotReady
	if strings.HasPrefix(obstacles[0].ID, status.PolicyPrefix) {
		kind = protocol.GovernanceUnavailable
	}
	return protocol.Errorf(kind, "%s", obstacles[0].Text)
}

// urlOf returns the URL of an address for clients on this machine.
func urlOf(addr *net.TCPAddr, tls bool) string {
	scheme, host := "http", addr.String()
	if tls {
		scheme = "https"
	}
	if addr.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
	}
	return scheme + "://" + host
}

// minToken is the length of a token that cannot be guessed, in bytes. 20 random letters and digits withstand a million
// attempts a second.
const minToken = 20

// checkToken refuses a short token if other machines can connect, and warns about it otherwise, because other users of
// this machine may guess it.
func checkToken(token string, exposed bool, listen string, log *slog.Logger) error {
	switch {
	case token == "" || len(token) >= minToken:
	case exposed:
		return &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%s can be reached from other machines, and its token of %s can be guessed: at least "+
				"%d are needed",
				listen, console.Plural(len(token), "character"), minToken),
			Hint: "openssl rand -hex 32 makes a good token",
		}
	default:
		log.Warn("the token can be guessed by other users of this machine", "characters", len(token), "needed",
			minToken, "next", "openssl rand -hex 32 makes a good token")
	}
	return nil
}

// maxToken is the size of the largest token file, in bytes. No header can hold a longer token.
const maxToken = 64 << 10

// bearerToken returns the configured token; "" if there is none.
func bearerToken(auth config.Auth) (string, error) {
	switch {
	case auth.TokenEnv != "":
		token := strings.TrimSpace(os.Getenv(auth.TokenEnv))
		if token == "" {
			return "", &console.Error{
				Code: console.ExitInvalid,
				Text: "server.auth.token_env: " + auth.TokenEnv + " is not set",
				Hint: "export " + auth.TokenEnv + "=…",
			}
		}
		return token, nil
	case auth.TokenFile != "":
		data, _, err := file.ReadRegular(auth.TokenFile, maxToken, true)
		token := strings.TrimSpace(string(data))
		switch kind, ok := errors.AsType[file.NotRegular](err); {
		case ok:
			err = fmt.Errorf("%s is %w", auth.TokenFile, kind)
		case err == nil && (token == "" || len(data) == maxToken):
			err = fmt.Errorf("%s holds no token: it is empty, or larger than one", auth.TokenFile)
		}
		if err != nil {
			return "", &console.Error{
				Code: console.ExitInvalid,
				Text: "server.auth.token_file: " + err.Error(),
				Hint: "exthost config show --origin says where it is set",
			}
		}
		return token, nil
	}
	return auth.Token, nil
}
