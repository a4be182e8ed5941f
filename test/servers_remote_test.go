package test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// remoteServer is a remote MCP server that requires a token.
func remoteServer(t *testing.T, token string) *httptest.Server {
	t.Helper()
	official := hosttest.OfficialServer()
	t.Cleanup(func() {
		for session := range official.Sessions() {
			session.Close()
		}
	})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return official }, nil)
	l, err := net.Listen("tcp", "127.0.0.1:"+processtest.FreePorts(t, 1)[0]) // a test may listen there again
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you with "+r.Header.Get("Authorization")+"?", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// A remote server is an extension like others. Its declared variables are secrets, which no error shows.
func TestRemoteServerIsAnExtension(t *testing.T) {
	processtest.Leaks(t)
	server := remoteServer(t, "s3cr3t-token")
	f := hosttest.NewFolder(t)
	f.Add("remote", "[transport]\nkind = \"http\"\nurl = \"${BASE}/mcp\"\ntoken_env = "+
		"\"REMOTE_TOKEN\"\n[requires]\nenv = [\"REMOTE_TOKEN\"]\n")
	f.Add("header", "[transport]\nkind = \"http\"\nurl = \"${BASE}\"\nheaders = { Authorization = \"Bearer "+
		"${REMOTE_TOKEN}\" }\n[requires]\nenv = [\"REMOTE_TOKEN\"]\n")
	f.Add("undeclared", "[transport]\nurl = \"${BASE}\"\nheaders = { Authorization = \"Bearer ${REMOTE_TOKEN}\", "+
		"X-Other = \"${NO_SUCH}\" }\n")
	f.Add("wrong", "[transport]\nurl = \"${BASE}\"\nheaders = { Authorization = \"Bearer ${OTHER_TOKEN}\" "+
		"}\n[requires]\nenv = [\"OTHER_TOKEN\"]\n")
	f.Add("missing", "[transport]\nurl = \"${BASE}\"\ntoken_env = \"NO_TOKEN\"\n[requires]\nenv = [\"NO_TOKEN\"]\n")
	h := f.Open(exthost.Options{
		Environ: []string{"BASE=" + server.URL, "REMOTE_TOKEN=s3cr3t-token", "OTHER_TOKEN=0ther-s3cr3t"},
	})
	for _, id := range []string{"remote", "header"} {
		got, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_upper", map[string]any{"text": "über"})
		if err != nil || got.Text() != "ÜBER" {
			t.Errorf("%s: %s, %v; %+v", id, got, err, hosttest.StatusOf(t, h, id).Reason)
		}
	}
	for id, want := range map[string][]string{
		"undeclared": {"REMOTE_TOKEN", "NO_SUCH"},
		"wrong":      {"401", "renew the token"},
		"missing":    {"NO_TOKEN"},
	} {
		s := hosttest.StatusOf(t, h, id)
		for _, part := range want {
			if !strings.Contains(s.Reason, part) {
				t.Errorf("%s is %s: %q does not say %q", id, s.State, s.Reason, part)
			}
		}
		if strings.Contains(s.Reason, "0ther-s3cr3t") {
			t.Errorf("%s shows a secret: %s", id, s.Reason)
		}
	}
}

// White space around a token of the environment, such as a line break at its end, is not part of the token, which is
// masked without it. What no header can have is refused by its name, and the server is not asked.
func TestTokenWithLineBreaks(t *testing.T) {
	processtest.Leaks(t)
	server := remoteServer(t, "s3cr3t-token")
	f := hosttest.NewFolder(t)
	for _, id := range []string{"good", "wrong", "torn"} {
		name := strings.ToUpper(id)
		f.Add(id, fmt.Sprintf("[transport]\nurl = %q\ntoken_env = %q\n[requires]\nenv = [%[2]q]\n", server.URL, name))
	}
	f.Add("header", fmt.Sprintf("[transport]\nurl = %q\nheaders = { X-Key = \"${TORN}\" }\n[requires]\nenv = "+
		"[\"TORN\"]\n", server.URL))
	h := f.Open(exthost.Options{
		Environ: []string{"GOOD=s3cr3t-token\r\n", "WRONG=0ther-s3cr3t\n", "TORN=t0rn\ns3cr3t"},
	})
	if s := hosttest.StatusOf(t, h, "good"); s.State != "ready" {
		t.Errorf("good is %s: %s", s.State, s.Reason)
	}
	for id, want := range map[string]string{
		"wrong":  "401",
		"torn":   "transport.token_env: the value of TORN has a line break",
		"header": "transport.headers: the value of X-Key has a line break",
	} {
		s := hosttest.StatusOf(t, h, id)
		if !strings.Contains(s.Reason, want) || strings.Contains(s.Reason, "s3cr3t") {
			t.Errorf("%s is %s: %s", id, s.State, s.Reason)
		}
	}
}

// A token from a file is masked like those in variables, and so is its replacement.
func TestTokenFileIsASecret(t *testing.T) {
	processtest.Leaks(t)
	server := remoteServer(t, "s3cr3t-token")
	f := hosttest.NewFolder(t).Add("remote", fmt.Sprintf("[transport]\nurl = %q\ntoken_file = \"token\"\n", server.URL))
	write := func(token string) {
		f.Write("remote/token", token+"\n")
		if err := os.Chmod(filepath.Join(f.Dir, "remote/token"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("f1rst-s3cr3t")
	h := f.Open(exthost.Options{})
	shown := func(secret string) {
		t.Helper()
		if s := hosttest.StatusOf(t, h, "remote"); !strings.Contains(s.Reason, "401") ||
			strings.Contains(s.Reason, secret) {
			t.Errorf("it is %s: %s", s.State, s.Reason)
		}
	}
	shown("f1rst-s3cr3t")
	write("s3c0nd-s3cr3t")
	if err := h.Admin().Restart(hosttest.Deadline(t), "remote"); err == nil ||
		strings.Contains(err.Error(), "s3c0nd-s3cr3t") {
		t.Errorf("the restart: %v", err)
	}
	shown("s3c0nd-s3cr3t")
	write("s3cr3t-token")
	if err := h.Admin().Restart(hosttest.Deadline(t), "remote"); err != nil {
		t.Error(err)
	}
}

// A token file that others may read is not used.
func TestTokenFileThatOthersMayRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: the mode of a file says nothing here")
	}
	processtest.Leaks(t)
	server := remoteServer(t, "s3cr3t-token")
	f := hosttest.NewFolder(t).Add("remote", fmt.Sprintf("[transport]\nurl = %q\ntoken_file = \"token\"\n", server.URL))
	f.Write("remote/token", "s3cr3t-token\n")
	file := filepath.Join(f.Dir, "remote/token")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	h := f.Open(exthost.Options{})
	if s := hosttest.StatusOf(t, h, "remote"); s.State == "ready" ||
		!strings.Contains(s.Reason, "everybody may read this file") || !strings.Contains(s.Reason, "chmod 600 "+file) {
		t.Errorf("it is %s: %s", s.State, s.Reason)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil ||
		hosttest.StatusOf(t, h, "remote").State != "ready" {
		t.Errorf("its owner's alone: %v, %+v", err, hosttest.StatusOf(t, h, "remote"))
	}
}

// A remote server that goes away is retried forever and found again.
func TestRemoteServerIsFoundAgain(t *testing.T) {
	processtest.Leaks(t)
	server := remoteServer(t, "x")
	f := hosttest.NewFolder(t).Add("remote",
		"[transport]\nkind = \"http\"\nurl = \""+server.URL+
			"\"\nheaders = { Authorization = \"Bearer x\" }\n[runtime.restart]\nbase_backoff = \"5ms\"\nmax_backoff "+
			"= \"20ms\"\n")
	h := f.Open(exthost.Options{})
	call := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), hosttest.Patience/50) // a call waits for a due restart
		defer cancel()
		_, err := h.Call(ctx, "ext_remote_upper", map[string]any{"text": "a"})
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	address := server.Listener.Addr().String()
	server.Listener.Close()
	server.CloseClientConnections()
	hosttest.Eventually(t, "it is missed",
		func() bool { _ = call(); return hosttest.StatusOf(t, h, "remote").State == "restarting" })
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &http.Server{Handler: server.Config.Handler}
	served := make(chan error, 1)
	go func() { served <- again.Serve(l) }()
	t.Cleanup(func() { _ = again.Close(); <-served })
	hosttest.Eventually(t, "it is found again", func() bool { return call() == nil })
	if s := hosttest.StatusOf(t, h, "remote"); s.Restarts < 1 || s.LastCrash == nil {
		t.Errorf("status: %+v", s)
	}
	_, err = h.Call(hosttest.Deadline(t), "ext_remote_uper", nil)
	if protocol.KindOf(err) != protocol.ToolNotFound {
		t.Error(err)
	}
}
