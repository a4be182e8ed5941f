package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
)

// TestVersionCheck has the program ask a site of releases, once and only when told to, directly and through a proxy.
func TestVersionCheck(t *testing.T) {
	var asked atomic.Int32
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, "%s  exthost_99.0.0_%s_%s.tar.gz\n", strings.Repeat("a", 64), runtime.GOOS, runtime.GOARCH)
	}))
	defer site.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", ca)
	t.Setenv("EXTHOST_RELEASES", site.URL+"/releases")
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}

	plain, code := ask(t, dir, "version")
	if long, _ := ask(t, dir, "--version"); code != console.ExitOK || plain != long || asked.Load() != 0 {
		t.Errorf("exit code %d, %q and %q; asked %d times", code, plain, long, asked.Load())
	}
	out, code := ask(t, dir, "version", "--check")
	const newer = "exthost 99.0.0 is newer\n  next: "
	if code != console.ExitOK || !strings.HasPrefix(out, plain+newer) || asked.Load() != 1 {
		t.Errorf("exit code %d, asked %d times: %s", code, asked.Load(), out)
	}
	out, code = ask(t, dir, "version", "--check", "-o", "json")
	var said struct {
		Program struct {
			Version string
			Latest  struct {
				Version, Upgrade string
				Newer            bool
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != console.ExitOK || said.Program.Version == "" ||
		said.Program.Latest.Version != "99.0.0" || !said.Program.Latest.Newer || said.Program.Latest.Upgrade == "" {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}

	proxied := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("EXTHOST_RELEASES", "https://releases.example/x")
	out, code = ask(t, dir, "version", "--check", "-o", "json")
	if code != console.ExitFailed || !strings.Contains(out, "Forbidden") || !strings.Contains(out, `"next": "try again`) {
		t.Errorf("a proxy that refuses: exit code %d, %s", code, out)
	}
	select {
	case got := <-proxied:
		if got != "CONNECT releases.example:443" {
			t.Errorf("the proxy was asked to %s", got)
		}
	default:
		t.Error("the proxy was not asked")
	}
	t.Setenv("EXTHOST_RELEASES", "http://releases.example/x")
	if out, code = ask(t, dir, "version", "--check"); code != console.ExitInvalid || out != "" {
		t.Errorf("an address that is not https: exit code %d, %s", code, out)
	}
}
